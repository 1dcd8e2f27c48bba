-- pglease schema, version 1. Plain SQL for psql, golang-migrate, goose or Atlas; Client.EnsureSchema sends
-- this very text as one implicit transaction. It creates the table, or upgrades the five-column table of the
-- Python package in place, and changes nothing where both have happened already.

-- Processes that start at once take turns: CREATE … IF NOT EXISTS alone fails with 23505, 42P07 or 42710.
SELECT pg_catalog.pg_advisory_xact_lock(7310305782594922853);

-- The ALTERs below wait behind running statements, and everybody waits behind a waiting ALTER: not for long.
SELECT pg_catalog.set_config('lock_timeout', '2s', true);

CREATE TABLE IF NOT EXISTS pglease_leases (
    task_name    varchar(255) PRIMARY KEY,
    owner_id     varchar(255) NOT NULL,
    acquired_at  timestamptz  NOT NULL,
    expires_at   timestamptz  NOT NULL,
    heartbeat_at timestamptz  NOT NULL,
    token        bigint       NOT NULL DEFAULT 0,
    session      jsonb,
    metadata     jsonb
) WITH (fillfactor = 50);

ALTER TABLE pglease_leases ADD COLUMN IF NOT EXISTS token bigint NOT NULL DEFAULT 0;
ALTER TABLE pglease_leases ADD COLUMN IF NOT EXISTS session jsonb;
ALTER TABLE pglease_leases ADD COLUMN IF NOT EXISTS metadata jsonb;

-- Half of each page stays free, so that a heartbeat's new row version fits beside the old one (a HOT update).
-- For the same reason there is no index on a column that a heartbeat changes: keep it so.
ALTER TABLE pglease_leases SET (fillfactor = 50);

COMMENT ON TABLE pglease_leases IS 'Leases of pglease, one row a name; schema version 1. A row is held while expires_at is in the future, and kept after its release for the sake of its token.';
COMMENT ON COLUMN pglease_leases.task_name IS 'The name that is leased, compared byte for byte.';
COMMENT ON COLUMN pglease_leases.owner_id IS 'Who holds it, or held it last.';
COMMENT ON COLUMN pglease_leases.acquired_at IS 'When the term began, by the clock of the server.';
COMMENT ON COLUMN pglease_leases.expires_at IS 'Until when the term lasts if it is not renewed.';
COMMENT ON COLUMN pglease_leases.heartbeat_at IS 'The last renewal. Not before expires_at: the term was released, and cannot be renewed.';
COMMENT ON COLUMN pglease_leases.token IS 'The fencing token of the term: rises with every grant and every forced release. 0: a Python worker made the row.';
COMMENT ON COLUMN pglease_leases.session IS 'Evidence of a hybrid holder about its session. Counts only for the owner, token and acquired_at that it names.';
COMMENT ON COLUMN pglease_leases.metadata IS 'Who holds it, for people: pid, host, program, version, what the user adds; and the number of the attempt that was granted.';
