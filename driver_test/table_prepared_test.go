package driver_test

import (
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/pglease/pglease-go/driver_test/internal/wire"
	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

// often is how many cycles make a client one that asks often, and more.
const often = 60

func cycles(t *testing.T, c *pglease.Client, name string, n int) {
	t.Helper()
	for range n {
		mustRelease(t, mustTry(t, c, name))
	}
}

// TestTableStatementsStayPrepared: with lib/pq, which prepares nothing by itself, a client that asks often comes to one round trip for
// each operation; it stays right when the session loses what was prepared, or ends.
func TestTableStatementsStayPrepared(t *testing.T) {
	e := newEnv(t).table()
	count := &wire.Counter{}
	db := e.openThrough(t, libpq, e.dsn(), count)
	const sessions = 5
	db.SetMaxOpenConns(sessions)
	db.SetMaxIdleConns(sessions)
	fillIdle(t, db, sessions) // a look waits a second for a new one, and is put off then
	c, other := client(t, db), client(t, db)
	trips := func() int {
		t.Helper()
		count.Reset()
		l := mustTry(t, c, "name")
		mustBeHeldNow(t, other, "name")
		mustRelease(t, l)
		_, n := count.Count()
		return n
	}
	sound := func(when string) {
		t.Helper()
		eventually(t, when+", one round trip each to acquire, to try in vain, and to release", func() bool { return trips() == 3 })
		most := 0
		inEachSession(t, db, sessions, func(c *sql.Conn) {
			var n int
			if err := c.QueryRowContext(testContext(t), "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%pglease_leases%'").Scan(&n); err != nil {
				t.Error(err)
			}
			most = max(most, n)
		})
		if most == 0 || most > 4 {
			t.Errorf("%s: a session has %d prepared statements, want 1 to 4", when, most)
		}
	}
	sound("at first")
	for _, lost := range []string{"DEALLOCATE ALL", "DISCARD ALL", "DISCARD PLANS"} {
		inEachSession(t, db, sessions, func(c *sql.Conn) {
			if _, err := c.ExecContext(testContext(t), lost); err != nil {
				t.Fatal(err)
			}
		})
		sound("after " + lost)
	}
	e.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '" + e.app + "' AND pid <> pg_backend_pid()")
	sound("after the sessions were ended")
	e.exec("ALTER TABLE pglease_leases ADD COLUMN more text")
	sound("with a column more")
}

// TestPreparedByMany: the clients of a process and their goroutines share what a session has prepared.
func TestPreparedByMany(t *testing.T) {
	e := newEnv(t).table()
	db := e.open(t, libpq, e.dsn())
	const goroutines = 8
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			c := client(t, db)
			for range often {
				l, err := c.TryAcquire(testContext(t), string(rune('a'+g%4)))
				if errors.Is(err, pglease.ErrHeld) {
					continue
				}
				if err == nil {
					err = l.Release(testContext(t))
				}
				if err != nil {
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestPoolersThatLookLikeSessions (S1): a pooler in transaction mode with two sessions may give one to each of two connections again and
// again: because others use the pool, or because it takes turns. Hybrid refuses it, and in table mode nothing is prepared: what has a name
// in one session is something else in the next.
func TestPoolersThatLookLikeSessions(t *testing.T) {
	for name, busy := range map[string]bool{"in turns": false, "busy": true, "busy, in turns": true} {
		t.Run(name, func(t *testing.T) {
			e := newDatabaseEnv(t).table()
			opts := []pgserver.Option{pgserver.WithSetting("default_pool_size", "2"), pgserver.WithSetting("min_pool_size", "2")}
			if name != "busy" {
				opts = append(opts, pgserver.WithSetting("server_round_robin", "1"))
			}
			dsn := e.bouncer(t, "transaction", opts...).DSN(e.database, e.pooled(libpq, "transaction")...)
			// The second session of the pool is opened when two ask at once.
			keepBusy(t, e.open(t, libpq, dsn), busy)
			db := e.open(t, libpq, dsn)
			for range sooner(10, 3) {
				cycles(t, client(t, db), "name", often)
				_, err := hybridClient(t, db).TryAcquire(testContext(t), "another")
				mustBeUnsupported(t, "hybrid", err, "pooler", "table backend")
			}
			for range 20 {
				var n int
				if err := db.QueryRowContext(testContext(t), "SELECT count(*) FROM pg_prepared_statements").Scan(&n); err != nil || n != 0 {
					t.Fatalf("a session has %d prepared statements: %v", n, err)
				}
			}
			e.noLockInDatabase(t)
		})
	}
}

// TestNothingIsPreparedForFew: a client that sends a statement now and then asks no questions, and neither does one whose pool is so
// small that others would wait for it.
func TestNothingIsPreparedForFew(t *testing.T) {
	e := newEnv(t).table()
	for most, n := range map[int]int{1: often, 2: often, 3: often, 5: 10} {
		db := e.open(t, libpq, e.dsn())
		db.SetMaxOpenConns(most)
		cycles(t, client(t, db), "name", n)
		inEachSession(t, db, most, func(c *sql.Conn) {
			var n int
			if err := c.QueryRowContext(testContext(t), "SELECT count(*) FROM pg_prepared_statements").Scan(&n); err != nil || n != 0 {
				t.Errorf("a session of %d has %d prepared statements: %v", most, n, err)
			}
		})
	}
}
