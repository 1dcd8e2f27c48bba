package driver_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pglease/pglease-go/db"
	"github.com/pglease/pglease-go/driver_test/internal/wire"
	"github.com/pglease/pglease-go/pglease"
)

// TestHybridRoundTrips: settings, lock and row are one statement, and so are row, lock and settings at the release. That is one round
// trip, since what was sent before on a connection is prepared there: by pgx, or else by us.
func TestHybridRoundTrips(t *testing.T) {
	each(t, three, func(t *testing.T, e *env, k kind) {
		count := &wire.Counter{}
		db := e.openThrough(t, k, e.dsn(), count)
		ctx := testContext(t)
		// The session check of lib/pq would count.
		c := hybridClient(t, db, pglease.WithSessionCheck(time.Hour))
		other := hybridClient(t, db, pglease.WithSessionCheck(time.Hour))
		var l *pglease.Lease
		operations := []struct {
			name string
			do   func() error
		}{
			{"acquire", func() (err error) { l, err = c.TryAcquire(ctx, e.schema); return err }},
			{"a losing try", func() error {
				if _, err := other.TryAcquire(ctx, e.schema); !errors.Is(err, pglease.ErrHeld) {
					return fmt.Errorf("not held: %w", err)
				}
				return nil
			}},
			{"renew", func() error { return l.Renew(ctx) }},
			{"release", func() error { return l.Release(ctx) }},
		}
		fewest := make([]struct{ statements, trips int }, len(operations))
		for round := range 8 {
			for i, o := range operations {
				count.Reset()
				if err := o.do(); err != nil {
					t.Fatalf("%s: %v", o.name, err)
				}
				s, n := count.Count()
				if f := &fewest[i]; round == 0 || n < f.trips {
					f.statements, f.trips = s, n
				}
			}
		}
		for i, o := range operations {
			if f := fewest[i]; f.statements != 1 || f.trips != 1 {
				t.Errorf("%s: %d statements, %d round trips; want 1 and 1", o.name, f.statements, f.trips)
			}
		}
	})
}

// roleTimeouts are what a role can have set against a session that waits, holds or idles (T6).
func (e *env) roleTimeouts() []string {
	version := value[int](e, "SELECT current_setting('server_version_num')::int")
	settings := []string{"statement_timeout = '700ms'", "lock_timeout = '600ms'", "idle_in_transaction_session_timeout = '500ms'"}
	if version >= 140000 {
		settings = append(settings, "idle_session_timeout = '800ms'")
	}
	if version >= 170000 {
		settings = append(settings, "transaction_timeout = '900ms'")
	}
	return settings
}

// TestHybridSettings (T6, S9): what a role or a database has set against the session is off while a lease is held, what lets the
// server bury a silent client is on; durability is as it was; and all is as before afterwards.
func TestHybridSettings(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		ctx := testContext(t)
		name, as := e.role()
		e.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON pglease_leases TO " + name)
		for _, s := range append(e.roleTimeouts(), "synchronous_commit = 'local'", "tcp_keepalives_idle = '77'") {
			e.exec("ALTER ROLE " + name + " SET " + s)
		}
		db := e.hybridPool(t, k, e.dsn(as))
		given := conn(t, db)
		settings := func() string {
			var s string
			if err := given.QueryRowContext(ctx, sessionState).Scan(&s); err != nil {
				t.Fatal(err)
			}
			return s
		}
		before := settings()
		c := hybridClient(t, given, pglease.WithTTL(10*time.Second))
		for _, round := range []string{"of an unknown name", "of one that this client has released"} {
			l := mustTry(t, c, e.schema)
			while := settings()
			for _, want := range []string{
				"statement_timeout=0", "synchronous_commit=local", "tcp_keepalives_idle=8", "tcp_keepalives_interval=1",
				"tcp_keepalives_count=3", "tcp_user_timeout=11000", "locks=2", // the lock, and the mark of the table
			} {
				if !strings.Contains(while, want) {
					t.Errorf("while the lease is held, %s: %s; want %s", round, while, want)
				}
			}
			for _, off := range []string{"idle_session_timeout=", "transaction_timeout="} {
				if strings.Contains(" "+before, " "+off) && !strings.Contains(" "+while, " "+off+"0") {
					t.Errorf("while the lease is held, %s: %s; want %s0", round, while, off)
				}
			}
			if strings.Contains(while, "lock_timeout=0") || strings.Contains(while, "lock_timeout=600 ") {
				t.Errorf("while the lease is held, %s: %s; want a lock_timeout of ours", round, while)
			}
			mustRelease(t, l)
			if after := settings(); after != before {
				t.Errorf("after the release, %s:\n\t%s\nbefore it:\n\t%s", round, after, before)
			}
		}
		// The lock was had, the row is somebody's: that puts everything back too.
		table := client(t, db)
		rival := mustTry(t, table, e.schema)
		mustBeHeldNow(t, c, e.schema)
		if after := settings(); after != before {
			t.Errorf("after a losing try:\n\t%s\nbefore it:\n\t%s", after, before)
		}
		mustRelease(t, rival)
	})
}

// TestTakeWithSession: what it did is what it says, whatever there was in the way.
func TestTakeWithSession(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		ctx, q := testContext(t), db.New()
		pool := e.open(t, k, e.dsn())
		own, other := conn(t, pool), conn(t, pool)
		id := time.Now().UnixNano()
		state := func() (s string) {
			if err := own.QueryRowContext(ctx, sessionState).Scan(&s); err != nil {
				t.Fatal(err)
			}
			return s
		}
		before := state()
		locked := strings.Replace(before, "locks=0", "locks=2", 1)
		change := func(statement string, args ...any) {
			if _, err := other.ExecContext(ctx, statement, args...); err != nil {
				t.Fatal(err)
			}
		}
		const trigger = "a trigger" // comes when the row is locked, which takes a transaction id
		take := func(way string, busy, granted bool) db.TakeWithSessionRow {
			t.Helper()
			row, err := q.TakeWithSession(ctx, own, db.TakeWithSessionParams{
				Key: id, Name: e.schema, Owner: "a", TTLSeconds: 30, Metadata: "{}", RowWaitMS: 100, KeepalivesIdle: 28, UserTimeoutMS: 31000,
			})
			if err != nil || row.Busy != busy || row.Granted != granted || way != trigger && (row.XID != "") != granted {
				t.Errorf("%s: busy %t, granted %t, xid %q, %v", way, row.Busy, row.Granted, row.XID, err)
			}
			want := before
			if !busy {
				want = locked
			}
			if after := state(); !granted && after != want {
				t.Errorf("%s:\n\t%s\nwant:\n\t%s", way, after, want)
			}
			if !busy && !granted {
				if _, err := q.UnlockKey(ctx, own, db.UnlockKeyParams{Key: id, Settings: row.OldSettings}); err != nil {
					t.Fatal(err)
				}
			}
			return row
		}
		take("no row", false, false)
		l := mustTry(t, client(t, pool), e.schema)
		take("a row that has not expired", false, false)
		mustRelease(t, l)
		change("BEGIN")
		change("SELECT FROM pglease_leases WHERE task_name = $1 FOR KEY SHARE", e.schema)
		take("a guarded write that is under way", false, false)
		change("COMMIT")
		change("SELECT pg_advisory_lock($1)", id)
		take("another session's lock", true, false)
		change("SELECT pg_advisory_unlock($1)", id)
		e.exec("CREATE FUNCTION suppress() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
		e.exec("CREATE TRIGGER suppress BEFORE UPDATE ON pglease_leases FOR EACH ROW EXECUTE FUNCTION suppress()")
		take(trigger, false, false)
		e.exec("DROP TRIGGER suppress ON pglease_leases")
		term := take("nothing", false, true)
		_, err := q.ReleaseWithSession(ctx, own, db.ReleaseWithSessionParams{Name: e.schema, Owner: "a", Token: term.Token, Key: id, Settings: term.OldSettings})
		if after := state(); err != nil || after != before {
			t.Errorf("after the release: %v\n\t%s\nbefore:\n\t%s", err, after, before)
		}
	})
}

// TestHybridTTLOfYears: the settings that depend on the TTL end sooner than it may.
func TestHybridTTLOfYears(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		given := conn(t, e.hybridPool(t, k, e.dsn()))
		l := mustTry(t, hybridClient(t, given, pglease.WithTTL(3*365*24*time.Hour)), e.schema)
		var while string
		if err := given.QueryRowContext(testContext(t), sessionState).Scan(&while); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"tcp_keepalives_idle=32767 ", "tcp_user_timeout=2147483647 "} { // Linux takes no more
			if !strings.Contains(while, want) {
				t.Errorf("while the lease is held: %s; want %s", while, want)
			}
		}
		mustRelease(t, l)
	})
}

// TestPythonsTermIsNotTakenForTheLastOne (H3): a Python worker leaves the columns that it does not know as they were.
func TestPythonsTermIsNotTakenForTheLastOne(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		pool := e.open(t, k, e.dsn())
		mustTry(t, hybridClient(t, pool), e.schema)
		c := client(t, pool)
		for range 2 { // what the row says is decoded once
			if held := mustBeHeldNow(t, c, e.schema); held.Mode != pglease.ModeHybrid || held.Metadata["pid"] == "" {
				t.Errorf("of the hybrid holder: mode %s, metadata %v", held.Mode, held.Metadata)
			}
		}
		e.exec("UPDATE pglease_leases SET owner_id = 'python', acquired_at = now(), expires_at = now() + interval '1 minute', heartbeat_at = now()")
		if held := mustBeHeldNow(t, c, e.schema); held.Owner != "python" || held.Mode != pglease.ModeTable || held.Metadata != nil {
			t.Errorf("of the Python worker %s: mode %s, metadata %v; want none", held.Owner, held.Mode, held.Metadata)
		}
		if info, err := c.Get(testContext(t), e.schema); err != nil || info.Mode != pglease.ModeTable || info.Metadata != nil {
			t.Errorf("read: mode %s, metadata %v, %v; want none", info.Mode, info.Metadata, err)
		}
	})
}

// TestTimeoutsOfARoleDoNoHarmToHybrid (T6): a lease outlives all of them, and so does a wait.
func TestTimeoutsOfARoleDoNoHarmToHybrid(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		name, as := e.role()
		e.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON pglease_leases TO " + name)
		for _, s := range e.roleTimeouts() {
			e.exec("ALTER ROLE " + name + " SET " + s)
		}
		db := e.hybridPool(t, k, e.dsn(as))
		// No statement is sent for longer than the session may idle.
		c := hybridClient(t, db, pglease.WithTTL(30*time.Second), pglease.WithSessionCheck(5*time.Second))
		l := mustTry(t, c, e.schema)
		waited := make(chan error, 1)
		go func() {
			next, err := hybridClient(t, db).Acquire(testContext(t), e.schema)
			if err == nil && next.Token() <= l.Token() {
				err = fmt.Errorf("token %d after %d", next.Token(), l.Token())
			}
			waited <- err
		}()
		hold := time.NewTimer(2500 * time.Millisecond)
		defer hold.Stop()
		select {
		case <-l.Done():
			t.Fatal(l.Err())
		case err := <-waited:
			t.Fatalf("the waiter did not wait: %v", err)
		case <-hold.C:
		}
		if err := l.Renew(testContext(t)); err != nil {
			t.Error(err)
		}
		mustRelease(t, l)
		if err := await(t, "the waiter", waited); err != nil {
			t.Error(err)
		}
	})
}
