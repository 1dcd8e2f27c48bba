-- name: AcquireAnyLease :one
-- Makes one attempt to begin a term under any one of several names, chosen at random of those that are free. Answers as
-- AcquireLease does; if all are held, with the term that can end first. No row: the names without a row were others' before they
-- were ours, or there is nothing to tell of them yet; ask again, with new_first.
--
-- Takes:  the names as a JSON array of strings.
-- Locks:  one expired row FOR UPDATE, not waiting: workers that ask at once get different names. A first row waits for whoever is making
--         the same one.
-- Writes: that row, or a new one for a name that has none. If all are held: nothing.
-- Sent:   by TryAcquireAny, and by AcquireAny once for each attempt.
--
-- Workers that find the same names without a row cannot see, and so not skip, what the others make. So each goes through these
-- names until it has made a row: an INSERT asks for the next one only when it has done with the last, and what it returns of
-- a row is computed when the row is there. It says so in a setting of its own, which is empty again after the transaction.
WITH clock AS (
    SELECT
        pg_catalog.clock_timestamp() AS at,
        pg_catalog.make_interval(secs => @ttl_seconds::double precision) AS ttl
), wanted AS MATERIALIZED (
    SELECT n.value AS name, pg_catalog.random() AS place
    FROM pg_catalog.jsonb_array_elements_text((@names::text)::jsonb) AS n (value)
), missing AS MATERIALIZED (
    SELECT wanted.name, wanted.place
    FROM wanted
    WHERE NOT EXISTS (SELECT 1 FROM pglease_leases AS e WHERE e.task_name = wanted.name)
    ORDER BY wanted.place
), new_first AS MATERIALIZED ( -- a name without a row is as likely as one with: else it waits until all the others are held
    SELECT @new_first::boolean OR NOT EXISTS (
        SELECT 1
        FROM pglease_leases AS e
        JOIN wanted ON wanted.name = e.task_name
        WHERE e.expires_at <= pg_catalog.clock_timestamp() AND wanted.place < (SELECT pg_catalog.min(missing.place) FROM missing)
    ) AS yes
), made AS (
    INSERT INTO pglease_leases AS l (
        task_name, owner_id, acquired_at, expires_at, heartbeat_at, token, session, metadata
    )
    SELECT
        m.name,
        @owner::text,
        clock.at,
        clock.at + clock.ttl,
        clock.at,
        (EXTRACT(epoch FROM clock.at) * 1000000)::bigint,
        NULL,
        (@metadata::text)::jsonb
    FROM missing AS m
    CROSS JOIN clock
    CROSS JOIN new_first
    WHERE CASE -- of all three tables, so that it is looked at last, and for each row anew
        WHEN new_first.yes AND m.place >= 0 AND clock.ttl IS NOT NULL
            THEN COALESCE(pg_catalog.current_setting('pglease.made', true), '') = ''
    END
    ON CONFLICT (task_name) DO NOTHING
    RETURNING
        l.task_name,
        l.owner_id,
        l.acquired_at,
        l.expires_at,
        l.heartbeat_at,
        l.token,
        pg_catalog.set_config('pglease.made', 'yes', true) AS made
), free AS MATERIALIZED (
    SELECT f.task_name AS name, f.token
    FROM pglease_leases AS f
    JOIN wanted ON wanted.name = f.task_name
    WHERE NOT EXISTS (SELECT 1 FROM made) AND f.expires_at <= pg_catalog.clock_timestamp()
    ORDER BY wanted.place
    LIMIT 1
    FOR UPDATE OF f SKIP LOCKED
), taken AS (
    UPDATE pglease_leases AS l
    SET
        owner_id = @owner::text,
        acquired_at = clock.at,
        expires_at = clock.at + clock.ttl,
        heartbeat_at = clock.at,
        token = GREATEST(free.token + 1, (EXTRACT(epoch FROM clock.at) * 1000000)::bigint),
        session = NULL,
        metadata = (@metadata::text)::jsonb
    FROM free
    CROSS JOIN clock
    WHERE l.task_name = free.name
    RETURNING l.task_name, l.owner_id, l.acquired_at, l.expires_at, l.heartbeat_at, l.token
), granted AS (
    SELECT made.task_name, made.owner_id, made.acquired_at, made.expires_at, made.heartbeat_at, made.token FROM made WHERE made.made <> ''
    UNION ALL
    SELECT taken.task_name, taken.owner_id, taken.acquired_at, taken.expires_at, taken.heartbeat_at, taken.token FROM taken
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
    WHERE NOT EXISTS (SELECT 1 FROM granted) AND NOT EXISTS (SELECT 1 FROM missing)
    ORDER BY h.expires_at
    LIMIT 1
);

-- name: TakeAnyWithSession :one
-- Makes one attempt of the hybrid backend under any one of several names, on a pinned connection: what TakeWithSession does, for
-- one whose advisory lock can be had. Answers one row: not locked, and the term of these names that can end first; or locked, with the
-- name, and granted or not. If not, this session has the lock of that name, and AcquireWithSession, with have_lock, tells the rest.
--
-- Takes:  the keys by their names, as a JSON object of strings.
-- Locks:  the advisory lock and the mark of one name, as AcquireWithSession does: at random of those whose row is missing or has
--         expired, or else of those whose row names, with evidence that counts, a session, which may be dead. If that row has expired: the row FOR
--         UPDATE, not waiting.
-- Writes: the row, if granted; the settings of the session, if a lock was won.
-- Sent:   by TryAcquireAny, and by AcquireAny once for each attempt, of a hybrid client; again, with the names that are left, if
--         the one whose lock it won is held all the same.
WITH wanted AS MATERIALIZED (
    SELECT
        n.key AS name,
        n.value::bigint AS key,
        e.task_name IS NULL AS is_new,
        COALESCE(e.expires_at <= pg_catalog.clock_timestamp(), true) AS is_free,
        COALESCE(
            e.session ->> 'owner' = e.owner_id
            AND e.session ->> 'token' = e.token::text
            AND e.session ->> 'acquired_us' = ((EXTRACT(epoch FROM e.acquired_at) * 1000000)::bigint)::text
            AND e.session ->> 'server_us' = ((EXTRACT(epoch FROM pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint)::text,
            false
        ) AS is_named,
        e.expires_at,
        pg_catalog.random() AS place
    FROM pg_catalog.jsonb_each_text((@names::text)::jsonb) AS n (key, value)
    LEFT JOIN pglease_leases AS e ON e.task_name = n.key
), locked AS MATERIALIZED ( -- one after the other, until one is won
    SELECT c.name, c.key, c.is_new
    FROM (
        SELECT wanted.name, wanted.key, wanted.is_new
        FROM wanted
        WHERE wanted.is_free OR wanted.is_named
        ORDER BY wanted.is_free DESC, wanted.place
        OFFSET 0
    ) AS c
    WHERE pg_catalog.pg_try_advisory_lock(c.key)
    LIMIT 1
), marked AS MATERIALIZED (
    SELECT
        locked.name,
        locked.key,
        locked.is_new,
        pg_catalog.clock_timestamp() AS at,
        pg_catalog.pg_try_advisory_lock_shared(
            pg_catalog.to_regclass('pglease_leases')::oid::integer, (locked.key & 4294967295)::oid::integer
        ) IS NOT NULL AS yes
    FROM locked
), before AS MATERIALIZED (
    SELECT
        pg_catalog.concat_ws(
            ' ',
            pg_catalog.current_setting('lock_timeout'),
            pg_catalog.current_setting('tcp_keepalives_idle'),
            pg_catalog.current_setting('tcp_keepalives_interval'),
            pg_catalog.current_setting('tcp_keepalives_count'),
            pg_catalog.current_setting('tcp_user_timeout'),
            pg_catalog.current_setting('statement_timeout'),
            pg_catalog.current_setting('idle_session_timeout', true),
            pg_catalog.current_setting('transaction_timeout', true)
        ) AS settings
    FROM marked
    WHERE marked.yes
), changed AS MATERIALIZED (
    SELECT
        before.settings AS old,
        pg_catalog.concat(
            pg_catalog.set_config('lock_timeout', (@row_wait_ms::bigint)::text, false),
            pg_catalog.set_config('tcp_keepalives_idle', (@keepalives_idle::bigint)::text, false),
            pg_catalog.set_config('tcp_keepalives_interval', '1', false),
            pg_catalog.set_config('tcp_keepalives_count', '3', false),
            pg_catalog.set_config('tcp_user_timeout', (@user_timeout_ms::bigint)::text, false),
            CASE WHEN pg_catalog.current_setting('statement_timeout', true) <> '0' THEN pg_catalog.set_config('statement_timeout', '0', false) END,
            CASE WHEN pg_catalog.current_setting('idle_session_timeout', true) <> '0' THEN pg_catalog.set_config('idle_session_timeout', '0', false) END,
            CASE WHEN pg_catalog.current_setting('transaction_timeout', true) <> '0' THEN pg_catalog.set_config('transaction_timeout', '0', false) END
        ) AS new
    FROM before
), free AS MATERIALIZED (
    SELECT
        f.task_name,
        pg_catalog.clock_timestamp() AS at,
        GREATEST(f.token + 1, (EXTRACT(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint) AS token
    FROM marked, changed, pglease_leases AS f
    WHERE marked.yes AND changed.new IS NOT NULL AND f.task_name = marked.name AND f.expires_at <= pg_catalog.clock_timestamp()
    FOR UPDATE OF f SKIP LOCKED
), term AS MATERIALIZED (
    SELECT free.task_name, free.at, free.token FROM free
    UNION ALL
    SELECT marked.name, marked.at, (EXTRACT(epoch FROM marked.at) * 1000000)::bigint
    FROM marked, changed
    WHERE marked.yes AND changed.new IS NOT NULL AND marked.is_new
), granted AS (
    INSERT INTO pglease_leases AS l (
        task_name, owner_id, acquired_at, expires_at, heartbeat_at, token, session, metadata
    )
    SELECT
        term.task_name,
        @owner::text,
        term.at,
        term.at + pg_catalog.make_interval(secs => @ttl_seconds::double precision),
        term.at,
        term.token,
        CASE WHEN @notice_ms::bigint >= 0 THEN pg_catalog.jsonb_build_object(
            'owner', @owner::text,
            'token', term.token,
            'acquired_us', (EXTRACT(epoch FROM term.at) * 1000000)::bigint,
            'pid', pg_catalog.pg_backend_pid(),
            'server_us', (EXTRACT(epoch FROM pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint,
            'notice_ms', @notice_ms::bigint
        ) END,
        (@metadata::text)::jsonb
    FROM term
    ON CONFLICT (task_name) DO UPDATE SET
        owner_id = excluded.owner_id,
        acquired_at = excluded.acquired_at,
        expires_at = excluded.expires_at,
        heartbeat_at = excluded.heartbeat_at,
        token = excluded.token,
        session = excluded.session,
        metadata = excluded.metadata
    WHERE EXISTS (SELECT 1 FROM free) -- or else the row is somebody's who came between, and not locked by us
    RETURNING l.acquired_at, l.expires_at, l.token
), soonest AS MATERIALIZED (
    SELECT wanted.name, wanted.key
    FROM wanted
    WHERE NOT EXISTS (SELECT 1 FROM marked)
    ORDER BY wanted.expires_at
    LIMIT 1
)
SELECT
    COALESCE(m.name, w.name)::text AS name,
    COALESCE(m.key, w.key)::bigint AS key,
    (m.name IS NOT NULL)::boolean AS locked,
    (g.token IS NOT NULL)::boolean AS granted,
    COALESCE(c.old, '')::text AS old_settings,
    pg_catalog.pg_backend_pid()::integer AS pid,
    COALESCE(s.owner_id, '')::text AS owner_id,
    COALESCE(g.acquired_at, s.acquired_at, clock.at)::timestamptz AS acquired_at,
    GREATEST(LEAST(COALESCE(g.expires_at, s.expires_at, clock.at), timestamptz '9999-12-31 00:00:00+00'), timestamptz '0001-01-01 00:00:00+00')::timestamptz AS expires_at,
    COALESCE(s.heartbeat_at, clock.at)::timestamptz AS heartbeat_at,
    COALESCE(g.token, s.token, 0)::bigint AS token,
    COALESCE(s.session::text, '')::text AS session,
    COALESCE(s.metadata::text, '')::text AS metadata,
    clock.at::timestamptz AS observed_at,
    CASE WHEN g.token IS NULL THEN '' ELSE COALESCE(pg_catalog.pg_current_xact_id_if_assigned()::text, '') END::text AS xid
FROM (SELECT pg_catalog.clock_timestamp() AS at) AS clock
LEFT JOIN changed AS c ON true
LEFT JOIN marked AS m ON true
LEFT JOIN granted AS g ON true
LEFT JOIN soonest AS w ON true
LEFT JOIN pglease_leases AS s ON s.task_name = w.name;

-- name: UnlockAnyKey :one
-- Gives up whichever of these keys this session has, with its mark. Nothing else is unlocked, so that nobody is warned of what it never had.
-- Takes:  the keys by their names, as TakeAnyWithSession does.
-- Sent:   after a TakeAnyWithSession that failed, and may have locked any one of them.
WITH had AS MATERIALIZED (
    SELECT n.value::bigint AS key
    FROM pg_catalog.jsonb_each_text((@names::text)::jsonb) AS n (key, value)
    JOIN pg_catalog.pg_locks AS k ON
        k.locktype = 'advisory'
        AND k.pid = pg_catalog.pg_backend_pid()
        AND k.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
        AND k.objsubid = 1
        AND ((k.classid::bigint << 32) | k.objid::bigint) = n.value::bigint
), unlocked AS MATERIALIZED (
    SELECT had.key, pg_catalog.pg_advisory_unlock(had.key) AS yes FROM had
), unmarked AS MATERIALIZED (
    SELECT unlocked.yes AND pg_catalog.pg_advisory_unlock_shared(
        pg_catalog.to_regclass('pglease_leases')::oid::integer, (unlocked.key & 4294967295)::oid::integer
    ) AS yes
    FROM unlocked
)
SELECT COALESCE(pg_catalog.bool_and(unmarked.yes), true)::boolean AS clean FROM unmarked;
