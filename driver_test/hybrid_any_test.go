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
