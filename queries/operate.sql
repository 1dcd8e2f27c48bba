-- name: ForceReleaseLease :one
-- Ends whatever term a row is in, by a new token, and answers with the term that it fenced. No row: there is none of
-- that name, or not with the token asked for, or the row is locked (by an open CheckTx, or for a moment).
--
-- Locks:  the row FOR UPDATE, so that it cannot pass an open CheckTx; not waiting (the client asks again).
-- Writes: the row: token, expires_at, heartbeat_at, session. The old holder learns of it at its next heartbeat.
-- Sent:   by ForceRelease.
WITH target AS MATERIALIZED (
    SELECT l.*
    FROM pglease_leases AS l
    WHERE
        l.task_name = @name::text
        AND (sqlc.narg(if_token)::bigint IS NULL OR l.token = sqlc.narg(if_token)::bigint)
    FOR UPDATE SKIP LOCKED
), clock AS MATERIALIZED (
    SELECT pg_catalog.clock_timestamp() AS at
), fenced AS (
    UPDATE pglease_leases AS l
    SET
        expires_at = LEAST(target.expires_at, clock.at),
        heartbeat_at = LEAST(target.expires_at, clock.at),
        token = GREATEST(target.token + 1, (EXTRACT(epoch FROM clock.at) * 1000000)::bigint),
        session = NULL
    FROM target, clock
    WHERE l.task_name = target.task_name
    RETURNING l.task_name
)
SELECT
    target.task_name,
    target.owner_id,
    target.acquired_at,
    GREATEST(LEAST(target.expires_at, timestamptz '9999-12-31 00:00:00+00'), timestamptz '0001-01-01 00:00:00+00')::timestamptz AS expires_at,
    target.heartbeat_at,
    target.token,
    COALESCE(target.session::text, '')::text AS session,
    COALESCE(target.metadata::text, '')::text AS metadata,
    clock.at::timestamptz AS observed_at,
    COALESCE(pg_catalog.pg_current_xact_id_if_assigned()::text, '')::text AS xid
FROM target, clock, fenced;

-- name: RowLockers :many
-- Names the other sessions whose open transactions lock rows of the lease table: one of them has the row that a caller
-- could not get. PostgreSQL does not tell which row. A pure read.
-- Sent:   by ForceRelease, for its error, when the row stayed locked.
SELECT
    k.pid::integer AS pid,
    COALESCE(a.application_name, '')::text AS application_name
FROM pg_catalog.pg_locks AS k
LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = k.pid
WHERE
    k.locktype = 'relation'
    AND k.relation = pg_catalog.to_regclass('pglease_leases')
    AND k.mode = 'RowShareLock'
    AND k.pid <> pg_catalog.pg_backend_pid()
ORDER BY k.pid
LIMIT 10;

-- name: DeleteExpiredLeases :execrows
-- Deletes one batch of rows that expired long ago. A row whose token is ahead of the clock stays: deleted, it would be
-- granted again with a lower token.
--
-- Locks:  the rows FOR UPDATE, not waiting: a locked row (an open CheckTx, a taker) is left for another time.
-- Writes: deletes the rows. Reads the whole table: there is no index on expires_at, on purpose.
-- Sent:   by DeleteExpired, until a batch is not full; once an hour by a client that holds leases, for rows that
--         expired a week ago.
WITH old AS MATERIALIZED (
    SELECT d.task_name
    FROM pglease_leases AS d
    WHERE
        d.expires_at <= pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => @older_than_seconds::double precision)
        AND d.token < (EXTRACT(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint
    LIMIT @batch::bigint
    FOR UPDATE SKIP LOCKED
)
DELETE FROM pglease_leases AS l
USING old
WHERE l.task_name = old.task_name;
