-- name: GetLease :one
-- Reads one row, held or not, and what the server knows of the session that its evidence names: the client's address and
-- the application's name only if the role may see them. A pure read.
-- Sent:   by Get, and to say who stands in the way when ForceRelease was refused.
--
-- An operator may have written infinity, which Go's time has no value for: expires_at is cut to what it has.
SELECT
    l.task_name,
    l.owner_id,
    l.acquired_at,
    GREATEST(LEAST(l.expires_at, timestamptz '9999-12-31 00:00:00+00'), timestamptz '0001-01-01 00:00:00+00')::timestamptz AS expires_at,
    l.heartbeat_at,
    l.token,
    COALESCE(l.session::text, '')::text AS session,
    COALESCE(l.metadata::text, '')::text AS metadata,
    pg_catalog.clock_timestamp()::timestamptz AS observed_at,
    COALESCE(a.pid, 0)::integer AS session_pid,
    COALESCE(pg_catalog.host(a.client_addr), '')::text AS session_client,
    COALESCE(a.application_name, '')::text AS session_application
FROM pglease_leases AS l
LEFT JOIN pg_catalog.pg_stat_activity AS a ON
    a.pid::text = l.session ->> 'pid'
    AND (a.backend_start IS NULL OR a.backend_start <= l.acquired_at)
WHERE l.task_name = @name::text;

-- name: ListLeases :many
-- Reads the rows whose names begin with a prefix, in byte order of their names, as GetLease does. A pure read.
-- Sent:   by List.
SELECT
    l.task_name,
    l.owner_id,
    l.acquired_at,
    GREATEST(LEAST(l.expires_at, timestamptz '9999-12-31 00:00:00+00'), timestamptz '0001-01-01 00:00:00+00')::timestamptz AS expires_at,
    l.heartbeat_at,
    l.token,
    COALESCE(l.session::text, '')::text AS session,
    COALESCE(l.metadata::text, '')::text AS metadata,
    pg_catalog.clock_timestamp()::timestamptz AS observed_at,
    COALESCE(a.pid, 0)::integer AS session_pid,
    COALESCE(pg_catalog.host(a.client_addr), '')::text AS session_client,
    COALESCE(a.application_name, '')::text AS session_application
FROM pglease_leases AS l
LEFT JOIN pg_catalog.pg_stat_activity AS a ON
    a.pid::text = l.session ->> 'pid'
    AND (a.backend_start IS NULL OR a.backend_start <= l.acquired_at)
WHERE
    (@with_expired::boolean OR l.expires_at > pg_catalog.clock_timestamp())
    AND pg_catalog.starts_with(l.task_name::text, @prefix::text)
ORDER BY l.task_name::text COLLATE "C"
LIMIT sqlc.narg(max_rows)::bigint;
