package driver_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// TestARenewalThatIsNotSentLosesNothing: a renewal whose context is over before anything is sent leaves the lease as it was, in hybrid
// as in table mode (Lease.Renew).
func TestARenewalThatIsNotSentLosesNothing(t *testing.T) {
	each(t, three, func(t *testing.T, e *env, k kind) {
		for backend, opts := range map[string][]pglease.Option{"table": nil, "hybrid": hybrid()} {
			l := mustTry(t, client(t, e.hybridPool(t, k, e.dsn()), opts...), e.schema)
			for _, d := range []time.Duration{0, time.Microsecond} {
				ctx, cancel := context.WithTimeout(testContext(t), d)
				<-ctx.Done()
				if err := l.Renew(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: Renew: %v", backend, err)
				}
				cancel()
			}
			if err := l.Err(); err != nil {
				t.Fatalf("%s: the lease after a renewal that was never sent: %v", backend, err)
			}
			if err := l.Renew(testContext(t)); err != nil {
				t.Errorf("%s: the next renewal: %v", backend, err)
			}
			mustRelease(t, l)
		}
	})
}

// TestRenewalsWhileALeaseIsReleased: a renewal that comes while its lease is being released, as a heartbeat may, ends with an error, and
// does nothing to the connection that has gone back to the pool.
func TestRenewalsWhileALeaseIsReleased(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		c := hybridClient(t, e.open(t, k, e.dsn()))
		for range sooner(500, 100) {
			l := mustTry(t, c, e.schema)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for l.Renew(testContext(t)) == nil {
					}
				})
			}
			mustRelease(t, l)
			wg.Wait()
			if err := l.Renew(testContext(t)); !errors.Is(err, pglease.ErrReleased) {
				t.Fatalf("a renewal after the release: %v", err)
			}
		}
		e.noLockInDatabase(t)
	})
}

// TestATryBehindAGuardIsShort: a try waits for a row that an open CheckTx guards as briefly as ever, whatever it has seen of the name
// before; and it does not keep the advisory lock meanwhile (H9).
func TestATryBehindAGuardIsShort(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		db := e.hybridPool(t, k, e.dsn())
		c := hybridClient(t, db)
		l := mustTry(t, c, e.schema)
		tx := begin(t, e.admin, nil)
		if err := l.CheckTx(testContext(t), tx); err != nil {
			t.Fatal(err)
		}
		mustRelease(t, l) // c believes that the name is free
		begun := time.Now()
		if _, err := c.TryAcquire(testContext(t), e.schema); !errors.Is(err, pglease.ErrHeld) {
			t.Errorf("behind a guard: %v", err)
		}
		if took := time.Since(begun); took > 1500*time.Millisecond {
			t.Errorf("a try took %v", took)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		mustRelease(t, mustTry(t, c, e.schema))
	})
}

// TestATableReplacedUnderALease leaves no lock behind: the session's mark is the old table's.
func TestATableReplacedUnderALease(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		db := e.hybridPool(t, k, e.dsn())
		for what, d := range map[string]pglease.DB{"a pool": db, "a given connection": conn(t, db)} {
			l := mustTry(t, hybridClient(t, d), e.schema)
			e.exec("DROP TABLE pglease_leases")
			e.table()
			if err := l.Release(testContext(t)); !errors.Is(err, pglease.ErrLost) {
				t.Errorf("%s: Release: %v", what, err)
			}
			e.noLockAfterward(t)
			mustRelease(t, mustTry(t, hybridClient(t, db), e.schema))
		}
	})
}

// TestAReleaseThatIsRolledBack (D3): the commit fails, after the lock has been given up, and the release is sent again.
func TestAReleaseThatIsRolledBack(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		e.exec("CREATE SEQUENCE commits")
		e.exec(`CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN
				IF nextval('commits') % 2 = 1 THEN
					RAISE 'the first of two' USING ERRCODE = '40001';
				END IF;
				RETURN NULL;
			END $$`)
		e.exec(`CREATE CONSTRAINT TRIGGER fail_once AFTER UPDATE ON pglease_leases DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW WHEN (NEW.expires_at < OLD.expires_at) EXECUTE FUNCTION fail_once()`)
		db := e.hybridPool(t, k, e.dsn())
		given := conn(t, db)
		pids := make(map[int]bool)
		session := func(from interface {
			QueryRowContext(context.Context, string, ...any) *sql.Row
		}) {
			var pid int
			if err := from.QueryRowContext(testContext(t), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
				t.Error(err)
			}
			pids[pid] = true
		}
		session(given)
		c := hybridClient(t, given)
		for range 3 {
			mustRelease(t, mustTry(t, c, e.schema))
			e.noLock()
			session(given) // and not a connection that was destroyed
		}
		if len(pids) != 1 {
			t.Errorf("the given connection had %d sessions", len(pids))
		}
		own := e.hybridPool(t, k, e.dsn())
		own.SetMaxIdleConns(4)
		c = hybridClient(t, own)
		mustRelease(t, mustTry(t, c, e.schema))
		before := own.Stats().OpenConnections
		for range 3 {
			mustRelease(t, mustTry(t, c, e.schema))
			e.noLock()
		}
		if after := own.Stats().OpenConnections; after != before {
			t.Errorf("%d connections of the pool are open, want %d", after, before)
		}
		if n := value[int](e, "SELECT last_value FROM commits"); n != 14 {
			t.Errorf("%d releases were committed or not, want 14: each was to be sent twice", n)
		}
	})
}
