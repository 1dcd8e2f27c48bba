-- name: TryLockTransaction :one
-- Tries for a transaction-level lock in the caller's transaction: gone with commit, rollback or disconnect. The keys are
-- those of names with the top bit set, so that they never meet a lease's key.
-- Sent:   by TryLockTx.
SELECT pg_catalog.pg_try_advisory_xact_lock(@key::bigint)::boolean AS locked;

-- name: LockTransaction :exec
-- Waits for a transaction-level lock in the caller's transaction, for as long as its lock_timeout and statement_timeout allow.
-- Sent:   by LockTx.
SELECT pg_catalog.pg_advisory_xact_lock(@key::bigint);
