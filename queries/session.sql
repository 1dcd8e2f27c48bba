-- name: AcquireWithSession :one
-- Makes one attempt of the hybrid backend, on a pinned connection: the advisory lock, the session's settings and the row in
-- one statement. Answers one row; state tells what was found:
--   busy     another session has the advisory lock; nothing was locked or changed
--   free     the row was free. Granted, unless somebody created the row in the meantime: ask again, with have_lock
--   held     this session has the lock now, but somebody else the row until it expires (a table-mode or Python worker)
--   suspect  as held, but the row's evidence names a session of this server run: it may be dead. Wait for its bound of
--            notice, and ask again with early
--   alive    as suspect, and with early, but the server still lists that session
--   pooled   as suspect, but that session is this very one: a pooler is in between
--
-- Locks:  the advisory lock of the key, for the session, not waiting. If won, a shared one too, of the table's oid and the low
--         half of the key: the key is the name's alone, and this tells which table the session has it for. Then the row, by its name alone, FOR UPDATE,
--         for lock_timeout at the most. Not SKIP LOCKED and without a condition: the last holder unlocks inside its
--         statement and commits after it, and whoever looked at conditions first would miss that row (H1).
-- Writes: the row, if granted; the settings of the session, if the lock was won and they exist in this version.
-- Sent:   by every attempt of a hybrid client, unless PeekWithSession, TakeWithSession or TakeAnyWithSession does; with have_lock after
--         them and after WaitForKey.
WITH lock AS MATERIALIZED (
    SELECT CASE
        WHEN @have_lock::boolean THEN true
        WHEN pg_catalog.pg_try_advisory_lock(@key::bigint) THEN pg_catalog.pg_try_advisory_lock_shared(
            pg_catalog.to_regclass('pglease_leases')::oid::integer, (@key::bigint & 4294967295)::oid::integer
        ) IS NOT NULL -- always, if it is called at all; "OR true" would be folded away, and the call with it
        ELSE false
    END AS won
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
    FROM lock
    WHERE lock.won
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
), old AS MATERIALIZED (
    SELECT l.task_name, l.owner_id, l.acquired_at, l.expires_at, l.heartbeat_at, l.token, l.session, l.metadata
    FROM changed, pglease_leases AS l
    WHERE changed.new IS NOT NULL AND l.task_name = @name::text
    FOR UPDATE OF l
), clock AS MATERIALIZED (
    SELECT
        pg_catalog.clock_timestamp() AS at,
        pg_catalog.make_interval(secs => @ttl_seconds::double precision) AS ttl
    FROM (SELECT pg_catalog.count(*) AS n FROM changed LEFT JOIN old ON true) AS after_the_wait -- and after the settings
), decided AS MATERIALIZED (
    SELECT
        clock.at,
        clock.at + clock.ttl AS expires_at,
        GREATEST(old.token + 1, (EXTRACT(epoch FROM clock.at) * 1000000)::bigint) AS token,
        CASE
            WHEN NOT lock.won THEN 'busy'
            WHEN old.task_name IS NULL OR old.expires_at <= clock.at THEN 'free'
            WHEN
                old.session IS NULL
                OR old.session ->> 'owner' <> old.owner_id
                OR old.session ->> 'token' <> old.token::text
                OR old.session ->> 'acquired_us' <> ((EXTRACT(epoch FROM old.acquired_at) * 1000000)::bigint)::text
                OR old.session ->> 'server_us' <> ((EXTRACT(epoch FROM pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint)::text
                THEN 'held'
            WHEN old.session ->> 'pid' = pg_catalog.pg_backend_pid()::text THEN 'pooled'
            WHEN NOT @early::boolean THEN 'suspect'
            -- A session that began after the term is another one under the same pid.
            WHEN EXISTS (
                SELECT 1
                FROM pg_catalog.pg_stat_activity AS a
                WHERE
                    a.pid::text = old.session ->> 'pid'
                    AND (a.backend_start IS NULL OR a.backend_start <= old.acquired_at)
            ) THEN 'alive'
            ELSE 'free'
        END AS state
    FROM lock
    CROSS JOIN clock
    LEFT JOIN old ON true
), granted AS (
    INSERT INTO pglease_leases AS l (
        task_name, owner_id, acquired_at, expires_at, heartbeat_at, token, session, metadata
    )
    SELECT
        @name::text,
        @owner::text,
        d.at,
        d.expires_at,
        d.at,
        d.token,
        CASE WHEN @notice_ms::bigint >= 0 THEN pg_catalog.jsonb_build_object(
            'owner', @owner::text,
            'token', d.token,
            'acquired_us', (EXTRACT(epoch FROM d.at) * 1000000)::bigint,
            'pid', pg_catalog.pg_backend_pid(),
            'server_us', (EXTRACT(epoch FROM pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint,
            'notice_ms', @notice_ms::bigint
        ) END,
        (@metadata::text)::jsonb
    FROM decided AS d
    WHERE d.state = 'free'
    ON CONFLICT (task_name) DO UPDATE SET
        owner_id = excluded.owner_id,
        acquired_at = excluded.acquired_at,
        expires_at = excluded.expires_at,
        heartbeat_at = excluded.heartbeat_at,
        token = excluded.token,
        session = excluded.session,
        metadata = excluded.metadata
    WHERE EXISTS (SELECT 1 FROM old) -- or else the row is somebody's who came between, and not locked by us
    RETURNING l.acquired_at, l.expires_at, l.token
)
SELECT
    d.state::text AS state,
    (g.token IS NOT NULL)::boolean AS granted,
    COALESCE(c.old, '')::text AS old_settings,
    pg_catalog.pg_backend_pid()::integer AS pid,
    COALESCE(o.owner_id, s.owner_id, '')::text AS owner_id,
    COALESCE(g.acquired_at, o.acquired_at, s.acquired_at, d.at)::timestamptz AS acquired_at,
    GREATEST(LEAST(COALESCE(g.expires_at, o.expires_at, s.expires_at, d.at), timestamptz '9999-12-31 00:00:00+00'), timestamptz '0001-01-01 00:00:00+00')::timestamptz AS expires_at,
    COALESCE(o.heartbeat_at, s.heartbeat_at, d.at)::timestamptz AS heartbeat_at,
    COALESCE(g.token, o.token, s.token, 0)::bigint AS token,
    COALESCE(o.session::text, s.session::text, '')::text AS session,
    COALESCE(o.metadata::text, s.metadata::text, '')::text AS metadata,
    d.at::timestamptz AS observed_at,
    CASE WHEN g.token IS NULL THEN '' ELSE COALESCE(pg_catalog.pg_current_xact_id_if_assigned()::text, '') END::text AS xid
FROM decided AS d
LEFT JOIN changed AS c ON true
LEFT JOIN granted AS g ON true
LEFT JOIN old AS o ON true
LEFT JOIN pglease_leases AS s ON d.state = 'busy' AND s.task_name = @name::text;

-- name: TakeWithSession :one
-- Makes an attempt on a row that exists and has expired: what AcquireWithSession does in the most frequent case, for half of
-- its planning and running. Answers one row: busy, another session has the advisory lock, and nothing was locked or changed; or not busy,
-- and granted or not. If not, this session has the lock, its settings are as they were (old_settings is empty), and AcquireWithSession,
-- with have_lock, tells what there is of the row.
-- Locks:  the advisory lock and the mark, as AcquireWithSession does. If won: the row FOR UPDATE, not waiting; a row that this misses
--         (H1) is not lost to it, but left to AcquireWithSession.
-- Writes: the row and the settings of the session, if granted.
-- Sent:   in place of AcquireWithSession by a client that has released the name itself a moment ago.
WITH lock AS MATERIALIZED (
    SELECT CASE
        WHEN pg_catalog.pg_try_advisory_lock(@key::bigint) THEN pg_catalog.pg_try_advisory_lock_shared(
            pg_catalog.to_regclass('pglease_leases')::oid::integer, (@key::bigint & 4294967295)::oid::integer
        ) IS NOT NULL
        ELSE false
    END AS won
), granted AS (
    UPDATE pglease_leases AS l
    SET
        owner_id = @owner::text,
        acquired_at = free.at,
        expires_at = free.at + pg_catalog.make_interval(secs => @ttl_seconds::double precision),
        heartbeat_at = free.at,
        token = free.token,
        session = CASE WHEN @notice_ms::bigint >= 0 THEN pg_catalog.jsonb_build_object(
            'owner', @owner::text,
            'token', free.token,
            'acquired_us', (EXTRACT(epoch FROM free.at) * 1000000)::bigint,
            'pid', pg_catalog.pg_backend_pid(),
            'server_us', (EXTRACT(epoch FROM pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint,
            'notice_ms', @notice_ms::bigint
        ) END,
        metadata = (@metadata::text)::jsonb
    FROM (
        SELECT
            f.task_name,
            pg_catalog.clock_timestamp() AS at,
            GREATEST(f.token + 1, (EXTRACT(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint) AS token,
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
        FROM lock, pglease_leases AS f
        WHERE lock.won AND f.task_name = @name::text AND f.expires_at <= pg_catalog.clock_timestamp()
        FOR UPDATE OF f SKIP LOCKED
    ) AS free
    WHERE l.task_name = free.task_name
    RETURNING
        l.acquired_at,
        l.expires_at,
        l.token,
        free.settings AS old_settings,
        pg_catalog.concat(
            pg_catalog.set_config('lock_timeout', (@row_wait_ms::bigint)::text, false),
            pg_catalog.set_config('tcp_keepalives_idle', (@keepalives_idle::bigint)::text, false),
            pg_catalog.set_config('tcp_keepalives_interval', '1', false),
            pg_catalog.set_config('tcp_keepalives_count', '3', false),
            pg_catalog.set_config('tcp_user_timeout', (@user_timeout_ms::bigint)::text, false),
            CASE WHEN pg_catalog.current_setting('statement_timeout', true) <> '0' THEN pg_catalog.set_config('statement_timeout', '0', false) END,
            CASE WHEN pg_catalog.current_setting('idle_session_timeout', true) <> '0' THEN pg_catalog.set_config('idle_session_timeout', '0', false) END,
            CASE WHEN pg_catalog.current_setting('transaction_timeout', true) <> '0' THEN pg_catalog.set_config('transaction_timeout', '0', false) END
        ) AS new_settings
)
SELECT
    (NOT lock.won)::boolean AS busy,
    (granted.token IS NOT NULL)::boolean AS granted,
    COALESCE(granted.old_settings, '')::text AS old_settings,
    pg_catalog.pg_backend_pid()::integer AS pid,
    COALESCE(granted.acquired_at, pg_catalog.clock_timestamp())::timestamptz AS acquired_at,
    COALESCE(granted.expires_at, pg_catalog.clock_timestamp())::timestamptz AS expires_at,
    COALESCE(granted.token, 0)::bigint AS token,
    COALESCE(pg_catalog.pg_current_xact_id_if_assigned()::text, '')::text AS xid
FROM lock
LEFT JOIN granted ON true;

-- name: PeekWithSession :one
-- Tries for the advisory lock, and reads the row as it was before. Answers one row: busy and what the row says; or not busy,
-- and this session has the lock now, for AcquireWithSession with have_lock.
-- Locks:  the advisory lock and the mark, as AcquireWithSession does. Writes: nothing.
-- Sent:   in place of AcquireWithSession by a client that has seen the name held, until the term that it saw can have ended.
WITH lock AS MATERIALIZED (
    SELECT
        CASE
            WHEN pg_catalog.pg_try_advisory_lock(@key::bigint) THEN pg_catalog.pg_try_advisory_lock_shared(
                pg_catalog.to_regclass('pglease_leases')::oid::integer, (@key::bigint & 4294967295)::oid::integer
            ) IS NOT NULL
            ELSE false
        END AS won,
        pg_catalog.clock_timestamp() AS at
)
SELECT
    (NOT lock.won)::boolean AS busy,
    pg_catalog.pg_backend_pid()::integer AS pid,
    COALESCE(l.owner_id, '')::text AS owner_id,
    COALESCE(l.acquired_at, lock.at)::timestamptz AS acquired_at,
    GREATEST(LEAST(COALESCE(l.expires_at, lock.at), timestamptz '9999-12-31 00:00:00+00'), timestamptz '0001-01-01 00:00:00+00')::timestamptz AS expires_at,
    COALESCE(l.heartbeat_at, lock.at)::timestamptz AS heartbeat_at,
    COALESCE(l.token, 0)::bigint AS token,
    COALESCE(l.session::text, '')::text AS session,
    COALESCE(l.metadata::text, '')::text AS metadata,
    lock.at::timestamptz AS observed_at
FROM lock
LEFT JOIN pglease_leases AS l ON l.task_name = @name::text;

-- name: WaitForKey :exec
-- Waits for the advisory lock of a key, for one slice at the most (55P03 after it), and takes nothing else: the snapshot of
-- a statement is older than its wait, so the row is left to a statement of its own (H2). While it waits, the session holds
-- back the server's oldest snapshot; that is why slices are short.
-- Locks:  the advisory lock, for the session, and the shared one of the table. After any error they may be held all the same (T1).
-- Sent:   by a hybrid client that waits, after an attempt that found the key busy; by one waiter per name and client.
WITH bound AS MATERIALIZED (
    SELECT pg_catalog.set_config('lock_timeout', @slice_ms::text, true) AS slice_ms
)
SELECT
    pg_catalog.pg_advisory_lock(@key::bigint),
    pg_catalog.pg_try_advisory_lock_shared(
        pg_catalog.to_regclass('pglease_leases')::oid::integer, (@key::bigint & 4294967295)::oid::integer
    )
FROM bound;

-- name: RenewWithSession :one
-- Renews the term of a hybrid lease on its pinned connection, and tells which session it is by now: the advisory lock lives
-- and dies with it.
-- Locks:  the row FOR NO KEY UPDATE, not waiting. Writes: expires_at and heartbeat_at (HOT).
-- Sent:   by the heartbeat, once for each hybrid lease.
WITH locked AS MATERIALIZED (
    SELECT l.task_name
    FROM pglease_leases AS l
    WHERE
        l.task_name = @name::text
        AND l.owner_id = @owner::text
        AND l.token = @token::bigint
        AND l.expires_at > pg_catalog.clock_timestamp()
        AND l.heartbeat_at < l.expires_at
    FOR NO KEY UPDATE SKIP LOCKED
), clock AS MATERIALIZED (
    SELECT
        pg_catalog.clock_timestamp() AS at,
        pg_catalog.make_interval(secs => @ttl_seconds::double precision) AS ttl
), renewed AS (
    UPDATE pglease_leases AS l
    SET expires_at = clock.at + clock.ttl, heartbeat_at = clock.at
    FROM locked, clock
    WHERE l.task_name = locked.task_name
    RETURNING l.expires_at
)
SELECT
    pg_catalog.pg_backend_pid()::integer AS pid,
    (renewed.expires_at IS NOT NULL)::boolean AS renewed,
    (EXISTS (
        SELECT 1
        FROM pglease_leases AS l
        WHERE
            l.task_name = @name::text
            AND l.owner_id = @owner::text
            AND l.token = @token::bigint
            AND l.expires_at > pg_catalog.clock_timestamp()
            AND l.heartbeat_at < l.expires_at
    ))::boolean AS current,
    COALESCE(renewed.expires_at, clock.at)::timestamptz AS expires_at,
    COALESCE(pg_catalog.pg_current_xact_id_if_assigned()::text, '')::text AS xid
FROM clock
LEFT JOIN renewed ON true;

-- name: PingSession :one
-- Tells that the session is there, and which one it is. A statement and not the driver's ping, which a driver need not have:
-- database/sql then answers for it.
-- Sent:   on the pinned connection every SessionCheck, by a holder whose driver cannot wait for the server.
SELECT pg_catalog.pg_backend_pid()::integer AS pid;

-- name: ReleaseWithSession :one
-- Ends the term of a hybrid lease on its pinned connection: the row as ReleaseLease does, then the advisory lock, then the
-- session's settings. The order is forced, RETURNING comes after the write: unlocked before the row is written, the next holder could
-- take the row in between, and this statement would end that one's term. No row: the term was over before, and nothing was
-- done; UnlockKey does the rest.
-- Locks:  the row FOR NO KEY UPDATE, for lock_timeout at the most. Gives up the advisory locks.
-- Sent:   by Release, Do, Close and whatever ends a hybrid lease.
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
    AND l.heartbeat_at < l.expires_at
RETURNING
    pg_catalog.pg_advisory_unlock(@key::bigint)::boolean AS unlocked,
    pg_catalog.pg_advisory_unlock_shared(
        pg_catalog.to_regclass('pglease_leases')::oid::integer, (@key::bigint & 4294967295)::oid::integer
    )::boolean AS unmarked,
    (CASE WHEN @settings::text <> '' THEN pg_catalog.concat(
        pg_catalog.set_config('lock_timeout', pg_catalog.split_part(@settings::text, ' ', 1), false),
        pg_catalog.set_config('tcp_keepalives_idle', pg_catalog.split_part(@settings::text, ' ', 2), false),
        pg_catalog.set_config('tcp_keepalives_interval', pg_catalog.split_part(@settings::text, ' ', 3), false),
        pg_catalog.set_config('tcp_keepalives_count', pg_catalog.split_part(@settings::text, ' ', 4), false),
        pg_catalog.set_config('tcp_user_timeout', pg_catalog.split_part(@settings::text, ' ', 5), false),
        CASE WHEN pg_catalog.current_setting('statement_timeout', true) <> pg_catalog.split_part(@settings::text, ' ', 6) THEN pg_catalog.set_config('statement_timeout', pg_catalog.split_part(@settings::text, ' ', 6), false) END,
        CASE WHEN pg_catalog.current_setting('idle_session_timeout', true) <> pg_catalog.split_part(@settings::text, ' ', 7) THEN pg_catalog.set_config('idle_session_timeout', pg_catalog.split_part(@settings::text, ' ', 7), false) END,
        CASE WHEN pg_catalog.current_setting('transaction_timeout', true) <> pg_catalog.split_part(@settings::text, ' ', 8) THEN pg_catalog.set_config('transaction_timeout', pg_catalog.split_part(@settings::text, ' ', 8), false) END
    ) END IS NOT NULL)::boolean AS restored,
    pg_catalog.pg_backend_pid()::integer AS pid;

-- name: UnlockKey :one
-- Gives up the advisory locks of a key, says whether this session had them, and restores the session's settings.
-- Sent:   when the lock was won and the row was not, or when it is not known whether the lock was won; and by a release whose term was
--         over before.
WITH unlocked AS MATERIALIZED (
    SELECT pg_catalog.pg_advisory_unlock(@key::bigint) AS yes
), unmarked AS MATERIALIZED (
    SELECT CASE WHEN unlocked.yes THEN pg_catalog.pg_advisory_unlock_shared(
        pg_catalog.to_regclass('pglease_leases')::oid::integer, (@key::bigint & 4294967295)::oid::integer
    ) END AS yes
    FROM unlocked
), restored AS MATERIALIZED (
    SELECT
        CASE WHEN @settings::text <> '' THEN pg_catalog.concat(
            pg_catalog.set_config('lock_timeout', pg_catalog.split_part(@settings::text, ' ', 1), false),
            pg_catalog.set_config('tcp_keepalives_idle', pg_catalog.split_part(@settings::text, ' ', 2), false),
            pg_catalog.set_config('tcp_keepalives_interval', pg_catalog.split_part(@settings::text, ' ', 3), false),
            pg_catalog.set_config('tcp_keepalives_count', pg_catalog.split_part(@settings::text, ' ', 4), false),
            pg_catalog.set_config('tcp_user_timeout', pg_catalog.split_part(@settings::text, ' ', 5), false),
            CASE WHEN pg_catalog.current_setting('statement_timeout', true) <> pg_catalog.split_part(@settings::text, ' ', 6) THEN pg_catalog.set_config('statement_timeout', pg_catalog.split_part(@settings::text, ' ', 6), false) END,
            CASE WHEN pg_catalog.current_setting('idle_session_timeout', true) <> pg_catalog.split_part(@settings::text, ' ', 7) THEN pg_catalog.set_config('idle_session_timeout', pg_catalog.split_part(@settings::text, ' ', 7), false) END,
            CASE WHEN pg_catalog.current_setting('transaction_timeout', true) <> pg_catalog.split_part(@settings::text, ' ', 8) THEN pg_catalog.set_config('transaction_timeout', pg_catalog.split_part(@settings::text, ' ', 8), false) END
        ) END AS settings
    FROM unmarked
)
SELECT
    unlocked.yes::boolean AS unlocked,
    COALESCE(unmarked.yes, true)::boolean AS unmarked
FROM unlocked, unmarked, restored;

-- name: KeyHolder :one
-- Finds the session that holds the advisory lock of a key, what the row of the name says of it, and for which other table
-- (a lease table in another schema) it holds it, if it does. No row: nobody does. A pure read.
-- Sent:   by a hybrid waiter that finds the key busy though the row has expired: the holder may hang.
SELECT
    k.pid::integer AS pid,
    COALESCE((EXTRACT(epoch FROM a.backend_start) * 1000000)::bigint, 0)::bigint AS started_us,
    COALESCE(l.token, 0)::bigint AS token,
    (l.task_name IS NULL OR l.expires_at <= pg_catalog.clock_timestamp())::boolean AS expired,
    COALESCE(
        l.session ->> 'pid' = k.pid::text
        AND l.session ->> 'owner' = l.owner_id
        AND l.session ->> 'token' = l.token::text
        AND l.session ->> 'acquired_us' = ((EXTRACT(epoch FROM l.acquired_at) * 1000000)::bigint)::text
        AND COALESCE(a.backend_start <= l.acquired_at, true), -- hidden from a role that may not see that session
        false
    )::boolean AS named,
    COALESCE((
        SELECT m.classid::pg_catalog.regclass::text
        FROM pg_catalog.pg_locks AS m
        WHERE
            m.locktype = 'advisory'
            AND m.granted
            AND m.database = k.database
            AND m.objsubid = 2
            AND m.objid = k.objid
            AND m.pid = k.pid
            AND m.classid <> pg_catalog.to_regclass('pglease_leases')::oid
        LIMIT 1
    ), '')::text AS other_table
FROM pg_catalog.pg_locks AS k
LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = k.pid
LEFT JOIN pglease_leases AS l ON l.task_name = @name::text
WHERE
    k.locktype = 'advisory'
    AND k.granted
    AND k.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
    AND k.objsubid = 1
    AND ((k.classid::bigint << 32) | k.objid::bigint) = @key::bigint
    AND k.pid <> pg_catalog.pg_backend_pid()
LIMIT 1;

-- name: EvictKeyHolder :one
-- Ends the session that holds the advisory lock of a key although the row has expired: its process hangs, or is stopped.
-- Looks everything up again in the same statement: the lock, the pid and the start of the session, that the row is still
-- in the term that was looked at, expired, and locked by nobody, and that the session does not hold the lock for another
-- table. No row: something has changed; nothing was done.
-- Locks:  the row FOR UPDATE for the length of the statement, not waiting.
-- Needs:  membership in the session's role, or in pg_signal_backend; 42501 without. (A role that has only the latter does not
--         see when that session began, and matches the lock, the pid and the term.)
-- Sent:   by a hybrid waiter, after KeyHolder: at once if the row's evidence names that session, or else if it held the key
--         at two looks 5 s apart (a table-mode worker may have had the row in between, H4).
WITH found AS MATERIALIZED (
    SELECT k.pid
    FROM pg_catalog.pg_locks AS k
    LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = k.pid
    WHERE
        k.locktype = 'advisory'
        AND k.granted
        AND k.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
        AND k.objsubid = 1
        AND ((k.classid::bigint << 32) | k.objid::bigint) = @key::bigint
        AND k.pid = @pid::integer
        AND COALESCE((EXTRACT(epoch FROM a.backend_start) * 1000000)::bigint, 0) = @started_us::bigint
        AND NOT EXISTS (
            SELECT 1
            FROM pg_catalog.pg_locks AS m
            WHERE
                m.locktype = 'advisory'
                AND m.granted
                AND m.database = k.database
                AND m.objsubid = 2
                AND m.objid = k.objid
                AND m.pid = k.pid
                AND m.classid <> pg_catalog.to_regclass('pglease_leases')::oid
        )
), expired AS MATERIALIZED (
    SELECT l.task_name
    FROM pglease_leases AS l
    WHERE
        l.task_name = @name::text
        AND l.token = @token::bigint
        AND l.expires_at <= pg_catalog.clock_timestamp()
    FOR UPDATE SKIP LOCKED
)
SELECT pg_catalog.pg_terminate_backend(found.pid)::boolean AS terminated
FROM found
WHERE
    EXISTS (SELECT 1 FROM expired)
    OR NOT EXISTS (SELECT 1 FROM pglease_leases AS l WHERE l.task_name = @name::text);
