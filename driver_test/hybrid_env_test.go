package driver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

// hybrid are the options of a hybrid client.
func hybrid(opts ...pglease.Option) []pglease.Option {
	return append([]pglease.Option{pglease.WithHybrid()}, opts...)
}

// hybridClient returns a hybrid client of d that is closed when t ends.
func hybridClient(t *testing.T, d pglease.DB, opts ...pglease.Option) *pglease.Client {
	t.Helper()
	return client(t, d, hybrid(opts...)...)
}

// hybridPool opens a pool on the env whose sessions must be as new ones are when t ends, or gone.
func (e *env) hybridPool(t *testing.T, k kind, dsn string) *sql.DB {
	t.Helper()
	db := e.open(t, k, dsn)
	t.Cleanup(func() { mustBeClean(t, db, k, dsn) })
	return db
}

// sessionState is all that a hybrid client may have changed in a session: its settings, the mark of the pre-flight, locks.
const sessionState = `SELECT string_agg(s.name || '=' || s.setting, ' ' ORDER BY s.name)
		|| ' mark=' || coalesce(current_setting('pglease.mark', true), '')
		|| ' locks=' || (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory')
	FROM pg_settings AS s WHERE s.name IN ('statement_timeout', 'lock_timeout', 'idle_session_timeout', 'transaction_timeout',
		'idle_in_transaction_session_timeout', 'tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count',
		'tcp_user_timeout', 'synchronous_commit', 'search_path')`

// mustBeClean compares each idle session of a pool with a new one.
func mustBeClean(t *testing.T, db *sql.DB, k kind, dsn string) {
	t.Helper()
	if !poll(func() bool { return db.Stats().InUse == 0 }) {
		t.Errorf("%d connections are still in use", db.Stats().InUse)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	fresh, done, err := k.open(dsn, nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer done()
	defer fresh.Close()
	var want string
	if !poll(func() bool { err = fresh.QueryRowContext(ctx, sessionState).Scan(&want); return err == nil }) { // the role's timeouts
		t.Errorf("a new session: %v", err)
		return
	}
	n := db.Stats().Idle
	if k.name == pgxPool.name {
		n = 8 // the idle ones are in a pool that does not tell
	}
	if limit := db.Stats().MaxOpenConnections; limit > 0 {
		n = min(n, limit)
	}
	for range n {
		conn, err := db.Conn(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		var got string
		if err := conn.QueryRowContext(ctx, sessionState).Scan(&got); err == nil && got != want { // or else it is dead
			t.Errorf("a session in the pool was left with\n\t%s\na new one has\n\t%s", got, want)
		}
	}
}

// holderPID returns the session that holds the advisory lock of the test, or 0.
func (e *env) holderPID() int {
	e.t.Helper()
	return value[int](e, `SELECT coalesce(max(pid), 0) FROM pg_locks JOIN pg_stat_activity USING (pid)
		WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND starts_with(application_name, $1)`, e.app)
}

// waiting counts the sessions that wait for an advisory lock of the test.
func (e *env) waiting() int {
	e.t.Helper()
	return value[int](e, `SELECT count(*)::int FROM pg_locks JOIN pg_stat_activity USING (pid)
		WHERE locktype = 'advisory' AND NOT granted AND starts_with(application_name, $1)`, e.app)
}

// terminate ends the session that holds the advisory lock of the test.
func (e *env) terminate(t *testing.T) {
	t.Helper()
	pid := e.holderPID()
	if pid == 0 || !value[bool](e, "SELECT pg_terminate_backend($1)", pid) {
		t.Fatalf("the session that holds the lock, %d, was not ended", pid)
	}
}

// mustBeUnsupported checks that err is an *UnsupportedError with those words in the finding, and a way out.
func mustBeUnsupported(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	var u *pglease.UnsupportedError
	if !errors.As(err, &u) || u.Finding == "" || u.Remedy == "" {
		t.Errorf("%s: %v (%T); want an *UnsupportedError with a finding and a remedy", what, err, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(u.Error(), w) {
			t.Errorf("%s: %q does not say %q", what, u, w)
		}
	}
}

// mustAcquire acquires a lease that is free, or will be.
func mustAcquire(t *testing.T, c *pglease.Client, name string, opts ...pglease.AcquireOption) *pglease.Lease {
	t.Helper()
	l, err := c.Acquire(testContext(t), name, opts...)
	if err != nil {
		t.Fatalf("Acquire(%q): %v", name, err)
	}
	return l
}

// mustTry acquires a lease that is free now.
func mustTry(t *testing.T, c *pglease.Client, name string, opts ...pglease.AcquireOption) *pglease.Lease {
	t.Helper()
	l, err := c.TryAcquire(testContext(t), name, opts...)
	if err != nil {
		t.Fatalf("TryAcquire(%q): %v", name, err)
	}
	return l
}

func mustRelease(t *testing.T, l *pglease.Lease) {
	t.Helper()
	if err := l.Release(testContext(t)); err != nil {
		t.Fatalf("Release(%q): %v", l.Name(), err)
	}
}

// mustBeHeldNow checks that name is not to be had, and returns who stands in the way.
func mustBeHeldNow(t *testing.T, c *pglease.Client, name string) *pglease.HeldError {
	t.Helper()
	l, err := c.TryAcquire(testContext(t), name)
	var held *pglease.HeldError
	if l != nil || !errors.As(err, &held) {
		t.Fatalf("TryAcquire(%q): %v, %v; want a *HeldError", name, l, err)
	}
	return held
}

// lossOf waits until l is lost for that reason.
func lossOf(t *testing.T, l *pglease.Lease, reason pglease.LossReason) {
	t.Helper()
	await(t, "the end of the lease's context", l.Context().Done())
	mustBeLossOf(t, context.Cause(l.Context()), l, reason)
	mustBeLossOf(t, l.Err(), l, reason)
}

func mustBeLossOf(t *testing.T, err error, l *pglease.Lease, reason pglease.LossReason) {
	t.Helper()
	var lost *pglease.LostError
	if !errors.As(err, &lost) || lost.Reason != reason || lost.Token != l.Token() || lost.Name != l.Name() {
		t.Errorf("lost with %v, want one about %q, token %d: %s", err, l.Name(), l.Token(), reason)
	}
}

// bouncer starts a PgBouncer in front of the env's server, or ends the test as not run.
func (e *env) bouncer(t *testing.T, mode string, opts ...pgserver.Option) *pgserver.Bouncer {
	t.Helper()
	b, err := pgserver.StartBouncer(testContext(t), e.place.Server, mode, opts...)
	if errors.Is(err, pgserver.ErrNotHere) {
		pgserver.NotRun(t, "pgbouncer", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	// A pooler passes no search_path on.
	e.exec(fmt.Sprintf("ALTER DATABASE %s SET search_path = %s", e.database, e.schema))
	t.Cleanup(func() { e.exec(fmt.Sprintf("ALTER DATABASE %s RESET search_path", e.database)) })
	return b
}

// sooner scales a number down for -short.
func sooner(n, short int) int {
	if testing.Short() {
		return short
	}
	return n
}
