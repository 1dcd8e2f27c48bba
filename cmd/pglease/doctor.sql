-- What pglease doctor and pglease schema check ask the server: every statement of the command that is not in queries/. All of
-- them are pure reads.

-- name: Table
-- The lease table that the search_path leads to; one row in any case.
SELECT
    COALESCE(n.nspname::text, '') AS schema_name,
    COALESCE(c.relkind::text, '') AS kind,
    COALESCE(c.relpersistence::text, '') AS persistence,
    COALESCE((
        SELECT pg_catalog.string_agg(a.attname::text, ',' ORDER BY a.attnum)
        FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    ), '') AS columns,
    pg_catalog.current_setting('search_path') AS search_path
FROM (SELECT pg_catalog.to_regclass('pglease_leases') AS oid) AS found
LEFT JOIN pg_catalog.pg_class AS c ON c.oid = found.oid
LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace;
