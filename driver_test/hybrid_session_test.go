package driver_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/wire"
	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

// TestPromotedStandby (S2, S3, S6): before it is one, hybrid refuses it; afterwards the lease that the old primary granted is
// respected to the end of its TTL, since the new one knows nothing of its session.
func TestPromotedStandby(t *testing.T) {
	p := breaking.get(t, "standby")
	noGoroutineLeft(t)
	for _, k := range two {
		t.Run(k.name, func(t *testing.T) {
			standby := startStandby(t, p)
			e := newEnvAt(t, p).table()
			holder := hybridClient(t, e.open(t, k, e.dsn()), pglease.WithTTL(6*time.Second), pglease.WithHeartbeatInterval(5*time.Second),
				pglease.WithSessionCheck(checkEvery))
			l := mustTry(t, holder, e.schema)
			db := e.open(t, k, standby.DSN(pgserver.Database(e.database), pgserver.Param("search_path", e.schema)))
			taker := hybridClient(t, db)
			eventually(t, "the standby to have the row", func() bool {
				var token int64
				return db.QueryRow("SELECT token FROM pglease_leases").Scan(&token) == nil && token == l.Token()
			})
			mustBeUnsupported(t, "a standby", second(taker.TryAcquire(testContext(t), e.schema)), "standby")
			if err := p.Crash(); err != nil {
				t.Fatal(err)
			}
			lossOf(t, l, pglease.LossSession)
			if err := standby.Promote(testContext(t)); err != nil {
				t.Fatal(err)
			}
			next := mustAcquire(t, taker, e.schema) // the same client, the same pool
			if next.AcquiredAt().Before(l.ExpiresAt()) || next.Token() <= l.Token() {
				t.Errorf("acquired at %v with token %d; the old primary's lease was until %v, token %d", next.AcquiredAt(), next.Token(), l.ExpiresAt(), l.Token())
			}
			mustRelease(t, next)
			if err := p.Restart(testContext(t)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestSessionThatBecameReadOnly (S6): it is destroyed, so that the same pool works again once the server does.
func TestSessionThatBecameReadOnly(t *testing.T) {
	noGoroutineLeft(t)
	for _, k := range two {
		t.Run(k.name, func(t *testing.T) {
			e := newDatabaseEnv(t).table()
			e.exec(fmt.Sprintf("ALTER DATABASE %s SET default_transaction_read_only = on", e.database))
			c := hybridClient(t, e.hybridPool(t, k, e.dsn()))
			mustBeUnsupported(t, "a read-only server", second(c.TryAcquire(testContext(t), e.schema)), "read only", "primary")
			admin := conn(t, e.admin) // whose session may be read only, too
			for _, statement := range []string{"SET transaction_read_only = off", "SET default_transaction_read_only = off",
				fmt.Sprintf("ALTER DATABASE %s RESET default_transaction_read_only", e.database)} {
				if _, err := admin.ExecContext(testContext(t), statement); err != nil {
					t.Fatal(err)
				}
			}
			mustRelease(t, mustTry(t, c, e.schema))
		})
	}
}

// TestShortLivedConnectionsAndHybrid (P5): the pool retires none that is pinned.
func TestShortLivedConnectionsAndHybrid(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		db := e.hybridPool(t, k, e.dsn())
		db.SetConnMaxLifetime(time.Millisecond)
		db.SetConnMaxIdleTime(time.Millisecond)
		c := hybridClient(t, db, pglease.WithHeartbeatInterval(20*time.Millisecond), pglease.WithSessionCheck(20*time.Millisecond))
		l := mustTry(t, c, e.schema)
		got := e.waits(t, hybridClient(t, db))
		until := l.ExpiresAt().Add(500 * time.Millisecond)
		eventually(t, "heartbeats", func() bool { return l.Err() != nil || l.ExpiresAt().After(until) })
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		mustRelease(t, l)
		mustRelease(t, await(t, "the waiter", got))
	})
}

// TestForceReleaseOfAHybridLease: the fence refuses at once, the holder learns with its next heartbeat, and then the lock is free.
func TestForceReleaseOfAHybridLease(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		db := e.hybridPool(t, k, e.dsn())
		c, operator := hybridClient(t, db), client(t, e.hybridPool(t, k, e.dsn()))
		l := mustTry(t, c, e.schema)
		info, err := operator.ForceRelease(testContext(t), e.schema)
		if err != nil || info.Token != l.Token() || info.Mode != pglease.ModeHybrid {
			t.Fatalf("ForceRelease: %+v, %v", info, err)
		}
		tx := begin(t, db, nil)
		if err := l.CheckTx(testContext(t), tx); !errors.Is(err, pglease.ErrLost) {
			t.Errorf("CheckTx: %v", err)
		}
		_ = tx.Rollback()
		lossOf(t, l, pglease.LossGone)
		next := mustAcquire(t, hybridClient(t, db), e.schema)
		if next.Token() <= l.Token() {
			t.Errorf("token %d after %d", next.Token(), l.Token())
		}
		mustBeLossOf(t, l.Release(testContext(t)), l, pglease.LossGone)
		if err := next.Renew(testContext(t)); err != nil {
			t.Errorf("after a late release of the forced lease: %v", err)
		}
	})
}

// TestListShowsTheSession, as far as the role may see it.
func TestListShowsTheSession(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		name, as := e.role()
		e.exec("GRANT SELECT ON pglease_leases TO " + name)
		db := e.hybridPool(t, k, e.dsn())
		mustTry(t, client(t, db), e.schema+" table")
		l := mustTry(t, hybridClient(t, db), e.schema)
		pid := e.holderPID()
		for who, reader := range map[string]*pglease.Client{
			"itself": client(t, db), "another role": client(t, e.hybridPool(t, k, e.dsn(as))),
		} {
			got, err := reader.Get(testContext(t), e.schema)
			if err != nil {
				t.Fatal(err)
			}
			list, err := reader.List(testContext(t))
			if err != nil || len(list) != 2 {
				t.Fatalf("List: %+v, %v", list, err)
			}
			for _, info := range []pglease.Info{got, list[0]} {
				if info.Mode != pglease.ModeHybrid || info.Token != l.Token() || info.Session == nil || info.Session.PID != pid {
					t.Errorf("%s: %+v, session %+v; want mode hybrid, pid %d", who, info, info.Session, pid)
					continue
				}
				s := info.Session
				if mine := who == "itself"; mine && (s.ClientAddr == "" || s.ApplicationName != e.app) || !mine && s.ClientAddr != "" {
					t.Errorf("%s: session %+v", who, s)
				}
			}
			if list[1].Mode != pglease.ModeTable || list[1].Session != nil {
				t.Errorf("%s: a table-mode lease: %+v", who, list[1])
			}
		}
		mustRelease(t, l)
		if got, err := client(t, db).Get(testContext(t), e.schema); err != nil || got.Mode != pglease.ModeTable || got.Session != nil {
			t.Errorf("a released lease: %+v, %v", got, err)
		}
	})
}

// TestLostAnswersOfHybrid (H8): the server has done it, and the client does not know: nothing stays held.
func TestLostAnswersOfHybrid(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		count := &wire.Counter{}
		c := hybridClient(t, e.openThrough(t, k, e.dsn(), count), pglease.WithSessionCheck(time.Hour))
		other := hybridClient(t, e.hybridPool(t, k, e.dsn()))
		for range 3 { // until what is sent is prepared
			mustRelease(t, mustTry(t, c, e.schema))
		}
		free := func() bool {
			l, err := other.TryAcquire(testContext(t), e.schema)
			return err == nil && l.Release(testContext(t)) == nil
		}
		count.CutNext()
		if l, err := c.TryAcquire(testContext(t), e.schema); err == nil {
			if l.Err() == nil { // the cut met the second try
				mustRelease(t, l)
			}
		} else if errors.Is(err, pglease.ErrHeld) {
			t.Errorf("a try whose answer is lost: %v", err)
		}
		eventually(t, "a lease that nobody holds", free)
		anyIsTakenBack(t, e, c, other, count)

		l := mustAcquire(t, c, e.schema)
		count.CutNext()
		if err := l.Release(testContext(t)); err != nil {
			t.Errorf("a release whose answer is lost: %v", err)
		}
		if !free() {
			t.Error("the released lease is held")
		}
	})
}
