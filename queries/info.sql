-- name: GetLease :one
-- Reads one row, held or not. A pure read.
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
    pg_catalog.clock_timestamp()::timestamptz AS observed_at
FROM pglease_leases AS l
WHERE l.task_name = @name::text;

-- name: ListLeases :many
-- Reads the rows whose names begin with a prefix, in byte order of their names. A pure read.
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
    pg_catalog.clock_timestamp()::timestamptz AS observed_at
FROM pglease_leases AS l
WHERE
    (@with_expired::boolean OR l.expires_at > pg_catalog.clock_timestamp())
    AND pg_catalog.starts_with(l.task_name::text, @prefix::text)
ORDER BY l.task_name::text COLLATE "C"
LIMIT sqlc.narg(max_rows)::bigint;
