-- What pglease doctor and pglease schema check ask the server: every statement of the command that is not in queries/. They write
-- nothing; Mark sets a setting in the session, which has no effect, and empties it with its last look.

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

-- name: Server
-- Which server this is, and its clock.
SELECT
    pg_catalog.current_setting('server_version_num')::integer AS version_num,
    pg_catalog.current_setting('server_version') AS version,
    pg_catalog.pg_is_in_recovery() AS in_recovery,
    pg_catalog.inet_client_addr() IS NULL AS over_socket,
    current_user::text AS role,
    pg_catalog.clock_timestamp() AS clock;

-- name: Settings
-- The settings of this session that matter to leases, in the units of pg_settings (milliseconds, seconds). Some are absent from
-- older servers.
SELECT s.name::text, s.setting::text
FROM pg_catalog.pg_settings AS s
WHERE s.name IN (
    'default_transaction_isolation', 'default_transaction_read_only', 'statement_timeout', 'lock_timeout', 'idle_session_timeout',
    'transaction_timeout', 'tcp_keepalives_idle', 'tcp_user_timeout', 'synchronous_commit', 'synchronous_standby_names',
    'fsync', 'full_page_writes'
);

-- name: Mark
-- Marks the session, and tells which one it is and what mark it had.
SELECT
    pg_catalog.pg_backend_pid() AS pid,
    COALESCE(pg_catalog.current_setting('pglease.doctor', true), '') AS found,
    pg_catalog.set_config('pglease.doctor', $1::text, false) AS mark;

-- name: Rights
-- What the role may do with the lease table, and with the sessions of others.
SELECT
    pg_catalog.has_table_privilege(t.oid, 'SELECT') AS may_select,
    pg_catalog.has_table_privilege(t.oid, 'INSERT') AS may_insert,
    pg_catalog.has_table_privilege(t.oid, 'UPDATE') AS may_update,
    pg_catalog.has_table_privilege(t.oid, 'DELETE') AS may_delete,
    pg_catalog.pg_has_role(current_user, 'pg_signal_backend', 'MEMBER') AS may_signal
FROM (SELECT pg_catalog.to_regclass('pglease_leases')::oid AS oid) AS t;

-- name: Indexes
-- The indexes of the lease table that a heartbeat would have to change.
SELECT DISTINCT n.nspname::text || '.' || x.relname::text
FROM pg_catalog.pg_index AS i
JOIN pg_catalog.pg_class AS x ON x.oid = i.indexrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = x.relnamespace
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid
WHERE
    i.indrelid = pg_catalog.to_regclass('pglease_leases')
    AND a.attname IN ('expires_at', 'heartbeat_at')
    AND (a.attnum = ANY (i.indkey) OR pg_catalog.pg_get_indexdef(i.indexrelid) LIKE '%' || a.attname || '%')
ORDER BY 1;

-- name: Others
-- Lease tables in other schemas: who uses one of them shares nothing with who uses this one.
SELECT COALESCE(pg_catalog.string_agg(n.nspname::text, ', ' ORDER BY n.nspname), '')
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relname = 'pglease_leases' AND c.relkind IN ('r', 'p') AND c.oid <> pg_catalog.to_regclass('pglease_leases');

-- name: Storage
-- The size of the lease table, and what keeps it small.
SELECT
    pg_catalog.pg_table_size(c.oid) AS bytes,
    (SELECT pg_catalog.count(*) FROM pglease_leases) AS row_count,
    COALESCE(pg_catalog.array_to_string(c.reloptions, ' '), '') AS options
FROM pg_catalog.pg_class AS c
WHERE c.oid = pg_catalog.to_regclass('pglease_leases');

-- name: OldestTransaction
-- The transaction that keeps old row versions alive for longest, in this database; its pid is 0 if there is none.
SELECT
    COALESCE(pg_catalog.max(EXTRACT(epoch FROM pg_catalog.clock_timestamp() - a.xact_start)), 0)::double precision AS seconds,
    COALESCE((pg_catalog.array_agg(a.pid ORDER BY a.xact_start))[1], 0) AS pid
FROM pg_catalog.pg_stat_activity AS a
WHERE a.datname = pg_catalog.current_database() AND a.xact_start IS NOT NULL AND a.pid <> pg_catalog.pg_backend_pid();

-- name: Sessions
-- How many sessions there are, and how many there may be: on the server, of this database, of this role. -1: no limit.
SELECT
    (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity AS a WHERE a.backend_type = 'client backend')::integer AS used,
    (pg_catalog.current_setting('max_connections')::integer - pg_catalog.current_setting('superuser_reserved_connections')::integer) AS max,
    (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity AS a WHERE a.datname = d.datname)::integer AS used_database,
    d.datconnlimit AS max_database,
    (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity AS a WHERE a.usename = r.rolname)::integer AS used_role,
    r.rolconnlimit AS max_role
FROM pg_catalog.pg_database AS d, pg_catalog.pg_roles AS r
WHERE d.datname = pg_catalog.current_database() AND r.rolname = current_user;

-- name: Standbys
-- How many standbys stream from this server.
SELECT pg_catalog.count(*)::integer FROM pg_catalog.pg_stat_replication;
