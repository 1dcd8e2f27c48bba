package driver_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

// TestHybridConformance runs the suite that every backend must pass, on every driver (P2, P12).
func TestHybridConformance(t *testing.T) {
	noGoroutineLeft(t)
	for _, k := range three {
		t.Run(k.name, func(t *testing.T) {
			e := newEnv(t).table()
			t.Cleanup(e.noLock)
			conform(t, e, hybridBackend, k, false, e.dsn())
		})
	}
}

// TestHybridOnAGivenConn: one lease at a time, since the server would grant the same session the same lock twice (P4). All
// that concerns one lease is as on a *sql.DB.
func TestHybridOnAGivenConn(t *testing.T) {
	each(t, three, func(t *testing.T, e *env, k kind) {
		ctx := testContext(t)
		name := e.schema // advisory locks are the database's, and other subtests run beside this one
		db := e.hybridPool(t, k, e.dsn())
		given := conn(t, db)
		c := hybridClient(t, given, pglease.WithHeartbeatInterval(10*time.Millisecond))
		other := hybridClient(t, db)
		last := int64(0)
		for range 5 {
			l := mustTry(t, c, name)
			if l.Token() <= last {
				t.Errorf("token %d after %d", l.Token(), last)
			}
			last = l.Token()
			if held := mustBeHeldNow(t, other, name); held.Token != l.Token() || held.Owner != l.Owner() {
				t.Errorf("held by %+v", held.Info)
			}
			mustBeHeldNow(t, c, name)
			_, err := c.TryAcquire(ctx, name+"2")
			mustBeUnsupported(t, "a second lease of one session", err, "given connection")
			_, err = c.AcquireAll(ctx, []string{name + "2", name + "3"})
			mustBeUnsupported(t, "two leases of one session", err, "connections")
			// The application reads on its connection, and so do we, beside the watch and the heartbeats.
			renewed := l.ExpiresAt()
			eventually(t, "heartbeats beside other statements", func() bool {
				if info, err := c.Get(ctx, name); err != nil || info.Token != l.Token() {
					t.Fatalf("Get: %+v, %v", info, err)
				}
				if err := errors.Join(l.Renew(ctx), l.Err()); err != nil {
					t.Fatal(err)
				}
				return l.ExpiresAt().After(renewed.Add(100 * time.Millisecond))
			})
			mustRelease(t, l)
			mustRelease(t, mustTry(t, other, name))
			all, err := c.AcquireAll(ctx, []string{name})
			if err != nil {
				t.Fatal(err)
			}
			if err := all.Release(ctx); err != nil {
				t.Fatal(err)
			}
		}
		// Without a second session nobody can know that there is no pooler: no evidence (section 6.1).
		l := mustTry(t, c, name)
		if info, err := other.Get(ctx, name); err != nil || info.Mode != pglease.ModeTable {
			t.Errorf("a lease on a given connection: %+v, %v; want no evidence in its row", info, err)
		}
		// The loss of the connection is the loss of the lease.
		e.terminate(t)
		lossOf(t, l, pglease.LossSession)
		if _, err := c.TryAcquire(ctx, name+"2"); err == nil || errors.Is(err, pglease.ErrHeld) {
			t.Errorf("a try on a dead connection: %v", err)
		}
	})
}

// TestTwoHybridClientsOnOneConn: they are one session, and both could win (P4).
func TestTwoHybridClientsOnOneConn(t *testing.T) {
	e := newEnv(t).table()
	given := conn(t, e.hybridPool(t, libpq, e.dsn()))
	first, err := pglease.New(given, pglease.WithHybrid())
	if err != nil {
		t.Fatal(err)
	}
	_, err = pglease.New(given, pglease.WithHybrid())
	mustBeUnsupported(t, "a second hybrid client on one *sql.Conn", err, "*sql.Conn")
	if err := first.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	mustRelease(t, mustTry(t, hybridClient(t, given), "name")) // the first has let go of it
}

// TestTransactionOnAGivenConnHybrid (P11): a grant in somebody's transaction is none, and leaves no ghost and no lock.
func TestTransactionOnAGivenConnHybrid(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		ctx := testContext(t)
		db := e.hybridPool(t, k, e.dsn())
		other := hybridClient(t, db)
		for _, end := range []string{"ROLLBACK", "COMMIT"} {
			name := e.schema + end
			given := conn(t, db)
			exec := func(statement string) {
				t.Helper()
				if _, err := given.ExecContext(ctx, statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			c := hybridClient(t, given, pglease.WithTTL(30*time.Second))
			exec("BEGIN")
			mustNameTheTransaction(t, "acquire", second(c.TryAcquire(ctx, name)))
			mustNameTheTransaction(t, "acquire", second(c.Acquire(ctx, name)))
			exec(end)
			mustRelease(t, mustTry(t, other, name))

			l := mustTry(t, c, name)
			granted := l.ExpiresAt()
			exec("BEGIN")
			mustNameTheTransaction(t, "renew", l.Renew(ctx))
			if !l.ExpiresAt().Equal(granted) || l.Err() != nil {
				t.Errorf("a renewal that a rollback takes back counted: %v, %v", l.ExpiresAt(), l.Err())
			}
			exec(end)
			if err := l.Renew(ctx); err != nil {
				t.Errorf("after the transaction: %v", err)
			}
			mustRelease(t, l)
			mustRelease(t, mustTry(t, other, name))
		}
	})
}

// TestHybridOverOtherTransports: reads interrupted by heartbeats, hundreds of times, leave a TLS stream and a Unix socket as
// good as a TCP connection (P9).
func TestHybridOverOtherTransports(t *testing.T) {
	ways := map[string]pgserver.DSNOption{"tls": pgserver.TLS(), "unix": pgserver.Unix()}
	p := secure.get(t, "tls")
	noGoroutineLeft(t)
	for name, way := range ways {
		for _, k := range two {
			t.Run(name+"/"+k.name, func(t *testing.T) {
				e := newEnvAt(t, p).table()
				dsn := e.dsn(way)
				core(t, e, e.hybridPool(t, k, dsn))
			})
		}
	}
}

// core acquires, interrupts the watch hundreds of times, loses the session, is followed by the next, which releases.
func core(t *testing.T, e *env, db *sql.DB) {
	t.Helper()
	ctx := testContext(t)
	c := hybridClient(t, db, pglease.WithSessionCheck(50*time.Millisecond))
	l := mustTry(t, c, "name")
	pid := e.holderPID()
	for i := range 300 {
		if err := l.Renew(ctx); err != nil {
			t.Fatalf("renewal %d: %v", i, err)
		}
	}
	if now := e.holderPID(); now != pid || pid == 0 {
		t.Errorf("the lock was in session %d, is in %d", pid, now)
	}
	e.terminate(t)
	lossOf(t, l, pglease.LossSession)
	next := mustAcquire(t, c, "name")
	if next.Token() <= l.Token() {
		t.Errorf("token %d after %d", next.Token(), l.Token())
	}
	mustRelease(t, next)
	e.noLock()
}
