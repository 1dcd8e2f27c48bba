-- name: AcquireLease :one
-- Makes one attempt to begin a term. Answers one row: the term that was granted, or the one that stands in the way;
-- no row if the name was created or deleted by somebody else during the statement: ask again.
--
-- Locks:  the row FOR UPDATE, only if it has expired, and never waiting for it (SKIP LOCKED): a locked row is a held
--         one. FOR UPDATE, because an open CheckTx holds FOR KEY SHARE, which weaker locks pass. It can wait for
--         one thing, another's uncommitted INSERT of the same name; the client's timeout bounds that.
-- Writes: the row, if granted. If not: nothing, no row lock and no transaction id.
-- Sent:   by TryAcquire, and by Acquire and what stands on it once for each attempt, unless ReadLease or TakeLease does.
--
-- The expiry is judged on the locked row by clock_timestamp(): now() stands still while a statement waits. The
-- condition of DO UPDATE compares with the clock as it was before the INSERT: a row that another process created in
-- the meantime can never have expired by then, so nothing is taken here that was not locked FOR UPDATE first.
WITH clock AS (
    SELECT
        pg_catalog.clock_timestamp() AS at,
        pg_catalog.make_interval(secs => @ttl_seconds::double precision) AS ttl
), granted AS (
    INSERT INTO pglease_leases AS l (
        task_name, owner_id, acquired_at, expires_at, heartbeat_at, token, session, metadata
    )
    SELECT
        @name::text,
        @owner::text,
        clock.at,
        clock.at + clock.ttl,
        clock.at,
        GREATEST(free.token + 1, (EXTRACT(epoch FROM clock.at) * 1000000)::bigint),
        NULL,
        (@metadata::text)::jsonb
    FROM
        clock
        LEFT JOIN (
            SELECT f.token
            FROM pglease_leases AS f
            WHERE f.task_name = @name::text AND f.expires_at <= pg_catalog.clock_timestamp()
            FOR UPDATE SKIP LOCKED
        ) AS free ON true
    WHERE
        free.token IS NOT NULL
        OR NOT EXISTS (SELECT 1 FROM pglease_leases AS e WHERE e.task_name = @name::text)
    ON CONFLICT (task_name) DO UPDATE SET
        owner_id = excluded.owner_id,
        acquired_at = excluded.acquired_at,
        expires_at = excluded.expires_at,
        heartbeat_at = excluded.heartbeat_at,
        token = GREATEST(l.token + 1, excluded.token),
        session = NULL,
        metadata = excluded.metadata
    WHERE l.expires_at <= excluded.acquired_at
    RETURNING l.owner_id, l.acquired_at, l.expires_at, l.heartbeat_at, l.token, l.session, l.metadata
)
SELECT
    true AS granted,
    g.owner_id,
    g.acquired_at,
    g.expires_at,
    g.heartbeat_at,
    g.token,
    ''::text AS session,
    ''::text AS metadata,
    g.acquired_at AS observed_at,
    pg_catalog.pg_current_xact_id_if_assigned()::text AS xid
FROM granted AS g
UNION ALL
SELECT
    false,
    h.owner_id,
    h.acquired_at,
    GREATEST(LEAST(h.expires_at, timestamptz '9999-12-31 00:00:00+00'), timestamptz '0001-01-01 00:00:00+00'),
    h.heartbeat_at,
    h.token,
    COALESCE(h.session::text, ''),
    COALESCE(h.metadata::text, ''),
    pg_catalog.clock_timestamp(),
    ''
FROM pglease_leases AS h
WHERE h.task_name = @name::text AND NOT EXISTS (SELECT 1 FROM granted);

-- name: TakeLease :one
-- Begins a term on a row that exists and has expired: what AcquireLease does in the most frequent case, for a third of its
-- planning. Answers the term; no row: the name is held, locked or unknown, and AcquireLease tells.
--
-- Locks:  the row FOR UPDATE, as AcquireLease does. Writes: the row, or nothing, and then without a transaction id.
-- Sent:   in place of AcquireLease by a client that has released the name itself a moment ago, or found it to be free.
UPDATE pglease_leases AS l
SET
    owner_id = @owner::text,
    acquired_at = free.at,
    expires_at = free.at + pg_catalog.make_interval(secs => @ttl_seconds::double precision),
    heartbeat_at = free.at,
    token = GREATEST(free.token + 1, (EXTRACT(epoch FROM free.at) * 1000000)::bigint),
    session = NULL,
    metadata = (@metadata::text)::jsonb
FROM (
    SELECT f.task_name, f.token, pg_catalog.clock_timestamp() AS at
    FROM pglease_leases AS f
    WHERE f.task_name = @name::text AND f.expires_at <= pg_catalog.clock_timestamp()
    FOR UPDATE SKIP LOCKED
) AS free
WHERE l.task_name = free.task_name
RETURNING
    l.acquired_at,
    l.expires_at,
    l.token,
    COALESCE(pg_catalog.pg_current_xact_id_if_assigned()::text, '')::text AS xid;

-- name: ReadLease :one
-- Reads one row, and nothing else. A pure read.
-- Sent:   in place of AcquireLease by a client that has seen the name held, until the term that it saw can have ended; if the
--         row has expired all the same, an attempt follows.
SELECT
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

-- name: RenewLeases :many
-- Renews terms of one owner, all in one statement, and answers for each of them: renewed; locked (somebody else holds
-- the row's lock: nothing was done, the term may be current still); neither (the term is over).
--
-- Takes:  the terms as JSON, [{"name": text, "token": bigint, "ttl_seconds": number}, ...], 1,000 at the most.
-- Locks:  the rows FOR NO KEY UPDATE (an open CheckTx does not hinder it), in the order of names, never waiting.
-- Writes: expires_at and heartbeat_at, which no index covers (a HOT update).
-- Sent:   by the heartbeat for all leases of a client that are due, by Lease.Renew for one.
--
-- An expired row is not renewed even if nobody has taken it, and neither is a released one that a minimum hold keeps
-- (its heartbeat_at is not before its expires_at).
WITH due AS MATERIALIZED (
    SELECT
        (d.value ->> 'name')::text AS name,
        (d.value ->> 'token')::bigint AS token,
        (d.value ->> 'ttl_seconds')::double precision AS ttl_seconds
    FROM pg_catalog.jsonb_array_elements((@terms::text)::jsonb) AS d
), locked AS MATERIALIZED (
    SELECT l.task_name, due.ttl_seconds
    FROM due
    JOIN pglease_leases AS l ON l.task_name = due.name
    WHERE
        l.owner_id = @owner::text
        AND l.token = due.token
        AND l.expires_at > pg_catalog.clock_timestamp()
        AND l.heartbeat_at < l.expires_at
    ORDER BY l.task_name
    FOR NO KEY UPDATE OF l SKIP LOCKED
), clock AS MATERIALIZED (
    SELECT pg_catalog.clock_timestamp() AS at
), renewed AS (
    UPDATE pglease_leases AS l
    SET
        expires_at = clock.at + pg_catalog.make_interval(secs => locked.ttl_seconds),
        heartbeat_at = clock.at
    FROM locked, clock
    WHERE l.task_name = locked.task_name
    RETURNING l.task_name, l.token, l.expires_at
)
SELECT
    due.name::text AS name,
    due.token::bigint AS token,
    (renewed.task_name IS NOT NULL)::boolean AS renewed,
    (seen.task_name IS NOT NULL)::boolean AS current,
    COALESCE(renewed.expires_at, timestamptz '0001-01-01 00:00:00+00')::timestamptz AS expires_at,
    COALESCE(pg_catalog.pg_current_xact_id_if_assigned()::text, '')::text AS xid
FROM due
LEFT JOIN renewed ON renewed.task_name = due.name AND renewed.token = due.token -- two terms of a name may be due, one of them lost
LEFT JOIN pglease_leases AS seen ON
    seen.task_name = due.name
    AND seen.owner_id = @owner::text
    AND seen.token = due.token
    AND seen.expires_at > pg_catalog.clock_timestamp()
    AND seen.heartbeat_at < seen.expires_at;

-- name: ReleaseLease :execrows
-- Ends a term: the row expires at once, or when its minimum hold is over, and cannot be renewed from then on.
--
-- Locks:  the row FOR NO KEY UPDATE; waits for whoever has locked it, until the client's timeout. An open CheckTx
--         does not hinder it, and goes on holding every taker off.
-- Writes: the row, if the term is current. No row: the term was over before.
-- Sent:   by Release, Do, Close and whatever ends a lease.
--
-- heartbeat_at must not come out before expires_at (that marks the row as released): both are computed from the
-- time at which the statement arrived, which stands still, unless the row says that it was renewed even later.
UPDATE pglease_leases AS l
SET
    expires_at = GREATEST(
        LEAST(pg_catalog.statement_timestamp(), l.expires_at),
        l.acquired_at + pg_catalog.make_interval(secs => @min_hold_seconds::double precision)
    ),
    heartbeat_at = GREATEST(
        LEAST(pg_catalog.statement_timestamp(), l.expires_at),
        l.acquired_at + pg_catalog.make_interval(secs => @min_hold_seconds::double precision)
    ),
    session = NULL
WHERE
    l.task_name = @name::text
    AND l.owner_id = @owner::text
    AND l.token = @token::bigint
    AND l.expires_at > pg_catalog.clock_timestamp()
    AND l.heartbeat_at < l.expires_at;

-- name: WithdrawLease :execrows
-- Takes back the grant of an attempt whose answer never arrived, so that the name is not held by nobody until its TTL.
-- The owner is new with each client and the attempt counts within it: no other term can match.
--
-- Takes:  the names that were asked for, as a JSON array of strings.
-- Locks, writes: as ReleaseLease. No row: the attempt was not granted, or its term is over.
-- Sent:   in the background, after an acquire that was cancelled or failed on its way; and before one for any of several names is
--         sent again.
UPDATE pglease_leases AS l
SET
    expires_at = LEAST(pg_catalog.statement_timestamp(), l.expires_at),
    heartbeat_at = LEAST(pg_catalog.statement_timestamp(), l.expires_at),
    session = NULL
WHERE
    l.task_name IN (SELECT n.value FROM pg_catalog.jsonb_array_elements_text((@names::text)::jsonb) AS n (value))
    AND l.owner_id = @owner::text
    AND l.metadata ->> 'attempt' = @attempt::text
    AND l.expires_at > pg_catalog.clock_timestamp()
    AND l.heartbeat_at < l.expires_at;
