package driver_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

func mustTryAny(t *testing.T, c *pglease.Client, names ...string) *pglease.Lease {
	t.Helper()
	l, err := c.TryAcquireAny(testContext(t), names)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestAnyOfDeadSessions: of names whose holders' sessions have died, one is taken early; those of others are left alone.
func TestAnyOfDeadSessions(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		alive := hybridClient(t, e.open(t, k, e.dsn()), pglease.WithTTL(longTTL))
		defer mustRelease(t, mustTry(t, alive, e.schema+" alive"))
		defer mustRelease(t, mustTry(t, client(t, e.open(t, k, e.dsn()), pglease.WithTTL(longTTL)), e.schema+" table"))
		s := newSuccession(t, e, k, pglease.WithTTL(longTTL))
		e.exec(`SELECT pg_terminate_backend((session ->> 'pid')::int) FROM pglease_leases WHERE task_name = $1`, e.schema)
		lossOf(t, s.lease, pglease.LossSession)
		l := mustTryAny(t, s.taker, e.schema+" alive", e.schema+" table", e.schema)
		if l.Name() != e.schema || l.Token() <= s.lease.Token() {
			t.Errorf("acquired %q with token %d after %d", l.Name(), l.Token(), s.lease.Token())
		}
		mustRelease(t, l)
	})
}

// TestAnyOfHeldNames: the answer is the term that can end first, and no lock stays behind. A name without a row, whose lock somebody
// has, is not taken, nor is one whose row has expired under a holder who hangs, until that one is ended.
func TestAnyOfHeldNames(t *testing.T) {
	each(t, three, func(t *testing.T, e *env, k kind) {
		taker := hybridClient(t, e.hybridPool(t, k, e.dsn()))
		holder := hybridClient(t, e.open(t, k, e.dsn()), pglease.WithSessionCheck(time.Hour))
		lasting := pglease.WithTTL(longTTL)
		defer mustRelease(t, mustTry(t, client(t, e.open(t, k, e.dsn())), e.schema+" table", pglease.WithTTL(longTTL/2)))
		evicted := mustTry(t, holder, e.schema+" hybrid", lasting)
		deleted := mustTry(t, holder, e.schema+" no row", lasting)
		e.change(t, "DELETE FROM pglease_leases WHERE task_name = $1", e.schema+" no row")

		names := []string{e.schema + " hybrid", e.schema + " no row", e.schema + " table"}
		_, err := taker.TryAcquireAny(testContext(t), names)
		var held *pglease.HeldError
		if !errors.As(err, &held) || held.Name != e.schema+" table" || held.Mode != pglease.ModeTable || held.Remaining() > longTTL/2 {
			t.Errorf("any of three held names: %v", err)
		}
		mustRelease(t, mustTryAny(t, taker, e.schema+" no row", e.schema+" and another that nobody has asked for"))

		e.change(t, "UPDATE pglease_leases SET expires_at = clock_timestamp() WHERE task_name = $1", e.schema+" hybrid")
		mustRelease(t, mustTryAny(t, taker, names...))
		for _, l := range []*pglease.Lease{evicted, deleted} {
			if err := l.Release(testContext(t)); !errors.Is(err, pglease.ErrLost) {
				t.Errorf("release of a lost lease: %v", err)
			}
		}
	})
}

// TestAnyGoesOn: a name whose advisory lock is free, but whose row somebody has locked or holds, does not hide one that is free.
func TestAnyGoesOn(t *testing.T) {
	each(t, three, func(t *testing.T, e *env, k kind) {
		taker := hybridClient(t, e.hybridPool(t, k, e.dsn()))
		guarded, python, free := e.schema+" guarded", e.schema+" python", e.schema+" free"
		for _, name := range []string{guarded, python, free} {
			mustRelease(t, mustTry(t, taker, name))
		}
		tx := begin(t, e.admin, nil)
		if _, err := tx.Exec("SELECT 1 FROM pglease_leases WHERE task_name = $1 FOR UPDATE", guarded); err != nil {
			t.Fatal(err)
		}
		// Evidence that was written for a term before.
		e.exec(`UPDATE pglease_leases SET acquired_at = clock_timestamp(), expires_at = clock_timestamp() + interval '1 h', session = '{"pid": 1}'
			WHERE task_name = $1`, python)
		for range 10 {
			if l := mustTryAny(t, taker, guarded, python, free); l.Name() != free {
				t.Errorf("acquired %q", l.Name())
			} else {
				mustRelease(t, l)
			}
		}
		for range 10 {
			if l := mustTryAny(t, taker, guarded, free); l.Name() != free {
				t.Errorf("acquired %q of two", l.Name())
			} else {
				mustRelease(t, l)
			}
		}
		_, err := taker.TryAcquireAny(testContext(t), []string{guarded, python})
		var held *pglease.HeldError
		if !errors.As(err, &held) || held.Name != guarded {
			t.Errorf("a guarded row and a held one: %v", err)
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	})
}

// TestAnyIsTheNameThatItSays: a row that is unlocked a moment too late for the first look at it is not taken for the name that is left.
func TestAnyIsTheNameThatItSays(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		taker := hybridClient(t, e.hybridPool(t, k, e.dsn()))
		guarded, python := e.schema+" guarded", e.schema+" python"
		for _, name := range []string{guarded, python} {
			mustRelease(t, mustTry(t, taker, name))
		}
		e.exec(`UPDATE pglease_leases SET acquired_at = clock_timestamp(), expires_at = clock_timestamp() + interval '1 h', session = NULL
			WHERE task_name = $1`, python)
		for range 5 {
			tx := begin(t, e.admin, nil)
			if _, err := tx.Exec("SELECT 1 FROM pglease_leases WHERE task_name = $1 FOR UPDATE", guarded); err != nil {
				t.Fatal(err)
			}
			unlocked := time.AfterFunc(150*time.Millisecond, func() { _ = tx.Rollback() })
			l, err := taker.TryAcquireAny(testContext(t), []string{guarded, python})
			switch {
			case errors.Is(err, pglease.ErrHeld):
			case err != nil:
				t.Error(err)
			case l.Name() != guarded:
				t.Errorf("acquired %q, which another holds", l.Name())
			default:
				mustRelease(t, l)
			}
			if unlocked.Stop() {
				_ = tx.Rollback()
			}
		}
	})
}

// TestAnyOfARowInTheMaking: the statement fails with a lock in its hands, which is given back before it is sent again.
func TestAnyOfARowInTheMaking(t *testing.T) {
	each(t, three, func(t *testing.T, e *env, k kind) {
		db := e.hybridPool(t, k, e.dsn())
		taker := hybridClient(t, db)
		making, kept := e.schema+" in the making", e.schema+" held"
		l := mustTry(t, hybridClient(t, e.open(t, k, e.dsn())), kept)
		tx := begin(t, e.admin, nil)
		_, err := tx.Exec(`INSERT INTO pglease_leases (task_name, owner_id, acquired_at, expires_at, heartbeat_at)
			VALUES ($1, 'somebody', now(), now() + interval '1 h', now())`, making)
		if err != nil {
			t.Fatal(err)
		}
		_, err = taker.TryAcquireAny(testContext(t), []string{making, kept})
		if err == nil || errors.Is(err, pglease.ErrHeld) {
			t.Errorf("a row that nobody can see yet: %v", err)
		}
		if n := value[int](e, "SELECT count(*)::int FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND starts_with(application_name, $1)", e.app); n != 2 {
			t.Errorf("%d advisory locks, want the holder's key and mark", n)
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
		mustRelease(t, mustTryAny(t, taker, making, kept))
		mustRelease(t, l)
	})
}

// TestHeldWithoutARow: of a name whose lock somebody has, but whose row is gone, nobody says that it is held for thousands of years.
func TestHeldWithoutARow(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		taker := hybridClient(t, e.hybridPool(t, k, e.dsn()))
		l := mustTry(t, hybridClient(t, e.open(t, k, e.dsn()), pglease.WithTTL(longTTL)), e.schema)
		mustBeHeldNow(t, taker, e.schema) // from then on it only looks
		e.change(t, "DELETE FROM pglease_leases WHERE task_name = $1", e.schema)
		_, err := taker.TryAcquire(testContext(t), e.schema)
		var held *pglease.HeldError
		if !errors.As(err, &held) || held.Remaining() > longTTL {
			t.Errorf("a held name without a row: %v", err)
		}
		if err := l.Release(testContext(t)); !errors.Is(err, pglease.ErrLost) {
			t.Errorf("release of a lease without a row: %v", err)
		}
	})
}

// TestAnyIsRepeatable: what the statement leaves behind in a session does not hinder the next one.
func TestAnyIsRepeatable(t *testing.T) {
	each(t, three, func(t *testing.T, e *env, k kind) {
		for _, mode := range modes {
			db := e.open(t, k, e.dsn())
			db.SetMaxOpenConns(2)
			c := client(t, db, mode.opts...)
			for range 3 {
				l := mustTryAny(t, c, e.schema+" 1", e.schema+" 2")
				next := mustTryAny(t, c, e.schema+" 1", e.schema+" 2")
				if l.Name() == next.Name() {
					t.Errorf("%q twice", l.Name())
				}
				mustRelease(t, next)
				mustRelease(t, l)
				e.exec("DELETE FROM pglease_leases WHERE task_name = $1", l.Name())
			}
		}
	})
}
