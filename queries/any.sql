-- name: AcquireAnyLease :one
-- Makes one attempt to begin a term under any one of several names, chosen at random of those that are free. Answers as
-- AcquireLease does; if all are held, with the term that can end first. No row: another has made the first row of the chosen
-- name meanwhile, or there is nothing to tell of it yet; ask again.
--
-- Takes:  the names as a JSON array of strings.
-- Locks:  one expired row FOR UPDATE, not waiting: workers that ask at once get different names.
-- Writes: that row, or a new one for a name that has none. If all are held: nothing.
-- Sent:   by TryAcquireAny, and by AcquireAny once for each attempt.
WITH clock AS (
    SELECT
        pg_catalog.clock_timestamp() AS at,
        pg_catalog.make_interval(secs => @ttl_seconds::double precision) AS ttl
), wanted AS MATERIALIZED (
    SELECT n.value AS name, pg_catalog.random() AS place
    FROM pg_catalog.jsonb_array_elements_text((@names::text)::jsonb) AS n (value)
), free AS MATERIALIZED (
    SELECT f.task_name AS name, f.token, wanted.place
    FROM pglease_leases AS f
    JOIN wanted ON wanted.name = f.task_name
    WHERE f.expires_at <= pg_catalog.clock_timestamp()
    ORDER BY wanted.place
    LIMIT 1
    FOR UPDATE OF f SKIP LOCKED
), missing AS MATERIALIZED (
    SELECT wanted.name, 0::bigint AS token, wanted.place
    FROM wanted
    WHERE NOT EXISTS (SELECT 1 FROM pglease_leases AS e WHERE e.task_name = wanted.name)
    ORDER BY wanted.place
    LIMIT 1
), chosen AS MATERIALIZED ( -- a name without a row is as likely as one with: else it waits until all the others are held
    SELECT c.name, c.token, c.is_new
    FROM (
        SELECT free.name, free.token, free.place, false AS is_new FROM free
        UNION ALL
        SELECT missing.name, missing.token, missing.place, true FROM missing
    ) AS c
    ORDER BY c.place
    LIMIT 1
), granted AS (
    INSERT INTO pglease_leases AS l (
        task_name, owner_id, acquired_at, expires_at, heartbeat_at, token, session, metadata
    )
    SELECT
        c.name,
        @owner::text,
        clock.at,
        clock.at + clock.ttl,
        clock.at,
        GREATEST(c.token + 1, (EXTRACT(epoch FROM clock.at) * 1000000)::bigint),
        NULL,
        (@metadata::text)::jsonb
    FROM clock
    CROSS JOIN chosen AS c
    ON CONFLICT (task_name) DO UPDATE SET
        owner_id = excluded.owner_id,
        acquired_at = excluded.acquired_at,
        expires_at = excluded.expires_at,
        heartbeat_at = excluded.heartbeat_at,
        token = GREATEST(l.token + 1, excluded.token),
        session = NULL,
        metadata = excluded.metadata
    WHERE NOT EXISTS (SELECT 1 FROM chosen WHERE chosen.is_new) -- else it is the row of somebody who came between, not locked by us
    RETURNING l.task_name, l.owner_id, l.acquired_at, l.expires_at, l.heartbeat_at, l.token
)
(
    SELECT
        true AS granted,
        g.task_name,
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
)
UNION ALL
(
    SELECT
        false,
        h.task_name,
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
    JOIN wanted AS w ON w.name = h.task_name
    WHERE NOT EXISTS (SELECT 1 FROM chosen)
    ORDER BY h.expires_at
    LIMIT 1
);
