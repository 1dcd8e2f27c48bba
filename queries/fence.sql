-- name: CheckTerm :one
-- Proves, inside the caller's transaction, that a term is current, and keeps it so: nobody takes the name over, forces
-- it away or deletes its row before that transaction ends.
--
-- Locks:  the row FOR KEY SHARE until the transaction ends, which hinders FOR UPDATE (every taker, Python's too) and
--         no heartbeat. Waits for a FOR UPDATE that is there already. A rollback to an earlier savepoint gives the
--         lock back.
-- Writes: nothing but the lock. Fails in a READ ONLY transaction (25006).
-- Sent:   by CheckTx, and by whoever sends what CheckQuery returns.
--
-- The row is locked by its name alone and judged afterwards, because a condition beside FOR KEY SHARE is not looked at
-- again after a wait. Above READ COMMITTED the row shows the age of the transaction's snapshot, and a live lease would
-- look expired: there the lock and the token are the proof (a taker's FOR UPDATE makes the statement fail with
-- 40001), and the handle judges the expiry.
WITH locked AS MATERIALIZED (
    SELECT l.owner_id, l.token, l.expires_at, l.heartbeat_at
    FROM pglease_leases AS l
    WHERE l.task_name = @name::text
    FOR KEY SHARE
)
SELECT (EXISTS (
    SELECT 1
    FROM locked
    WHERE
        locked.owner_id = @owner::text
        AND locked.token = @token::bigint
        AND locked.heartbeat_at < locked.expires_at
        AND (
            locked.expires_at > pg_catalog.clock_timestamp()
            OR pg_catalog.current_setting('transaction_isolation') <> 'read committed'
        )
))::boolean AS current;
