-- name: DescribeTable :many
-- Describes the lease table that the search_path leads to, a row for each column; no row: it leads to none.
-- Drop_indexes has a line for each index that contains the column or mentions it, for people: nothing here sends it.
-- A pure read. Sent by EnsureSchema before it changes anything, and after.
SELECT
    n.nspname::text AS schema_name,
    c.relkind::text AS relation_kind,
    c.relpersistence::text AS persistence,
    a.attname::text AS column_name,
    pg_catalog.format_type(a.atttypid, NULL)::text AS column_type,
    a.attnotnull::boolean AS not_null,
    (EXISTS (
        SELECT 1
        FROM pg_catalog.pg_index AS i
        WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indkey::text = a.attnum::text
    ))::boolean AS is_unique,
    COALESCE((
        SELECT pg_catalog.string_agg('DROP INDEX CONCURRENTLY ' || i.indexrelid::pg_catalog.regclass::text, E'\n' ORDER BY i.indexrelid)
        FROM pg_catalog.pg_index AS i
        WHERE i.indrelid = c.oid AND EXISTS (
            SELECT 1
            FROM pg_catalog.pg_depend AS d
            WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = i.indexrelid
                AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid = c.oid AND d.refobjsubid = a.attnum
        )
    ), '')::text AS drop_indexes
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.oid = pg_catalog.to_regclass('pglease_leases')
ORDER BY a.attnum;

-- name: SearchPath :one
-- Tells where an unqualified table is looked for. A pure read. Sent for the text of ErrNoSchema.
SELECT pg_catalog.current_setting('search_path')::text AS search_path;
