-- name: TransactionStatus :one
-- Tells whether a write is known to be committed: 'committed', 'in progress', 'aborted', or nothing for one long past.
-- A pure read. Sent after a write on a connection that the caller gave: if a transaction is open there, the write can
-- still be rolled back.
SELECT COALESCE(pg_catalog.pg_xact_status((@xid::text)::xid8), '')::text AS status;

-- name: TransactionOpen :one
-- Tells whether this session is in a transaction that has written something. A pure read. Sent on a
-- connection that the caller gave, after a release and after an AcquireAnyLease without an answer.
SELECT (pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL)::boolean AS open;
