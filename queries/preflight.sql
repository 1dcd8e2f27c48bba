-- name: DescribeSession :one
-- Tells which session this is, and whether its server can be written to. Leaves a mark in the session, which another
-- statement of the same session must find again. Writes nothing else.
-- Sent:   by the pre-flight of a hybrid client, and of a table-mode client that asks often, if its driver prepares nothing by itself: 20
--         times on two connections, or 3 times on one, the last time on each with an empty mark.
SELECT
    pg_catalog.pg_backend_pid()::integer AS pid,
    COALESCE(pg_catalog.current_setting('pglease.mark', true), '')::text AS found,
    pg_catalog.set_config('pglease.mark', @mark::text, false)::text AS mark,
    pg_catalog.pg_is_in_recovery()::boolean AS standby,
    (pg_catalog.current_setting('transaction_read_only') = 'on')::boolean AS read_only;

-- name: ProbeLock :one
-- Takes the advisory lock of a random key, for the session. Sent by the pre-flight on the first of two connections.
SELECT pg_catalog.pg_try_advisory_lock(@key::bigint)::boolean AS won;

-- name: ProbeConflict :one
-- Tries for the key that another session holds, and gives it back at once if it is granted, which must not be.
-- Sent:   by the pre-flight on the second connection.
SELECT CASE
    WHEN pg_catalog.pg_try_advisory_lock(@key::bigint) THEN pg_catalog.pg_advisory_unlock(@key::bigint) IS NOT NULL
    ELSE false
END::boolean AS won;

-- name: ProbeUnlock :one
-- Gives the key back; false: this session did not have it. Sent by the pre-flight on the first connection.
SELECT pg_catalog.pg_advisory_unlock(@key::bigint)::boolean AS unlocked;
