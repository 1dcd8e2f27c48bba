package driver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

// refusesHybrid checks that every way to a lease is refused for that reason, and that no row and no lock is left, on no
// session of the database, whoever's it is.
func refusesHybrid(t *testing.T, e *env, c *pglease.Client, words ...string) {
	t.Helper()
	ctx := testContext(t)
	none := func(context.Context, *pglease.Lease) error { t.Error("it ran"); return nil }
	for what, err := range map[string]error{
		"TryAcquire": second(c.TryAcquire(ctx, e.schema)),
		"Acquire":    second(c.Acquire(ctx, e.schema)),
		"AcquireAny": second(c.AcquireAny(ctx, []string{e.schema, "b"})),
		"Do":         c.Do(ctx, e.schema, none, pglease.SkipIfHeld()),
		"Lead":       c.Lead(ctx, e.schema, none),
	} {
		mustBeUnsupported(t, what, err, words...)
	}
	e.noLockInDatabase(t)
	if n := value[int](e, "SELECT count(*)::int FROM pglease_leases"); n != 0 {
		t.Errorf("%d rows were made", n)
	}
}

func (e *env) noLockInDatabase(t *testing.T) {
	t.Helper()
	var left int
	if !poll(func() bool {
		left = value[int](e, `SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory'
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
		return left == 0
	}) {
		t.Errorf("%d advisory locks left in the database", left)
	}
}

// TestTransactionPoolerIsRefused (S1): quiet, where both connections may well get the same server session, and busy, where a
// connection changes its session all the time; and whether or not pgx prepares statements.
func TestTransactionPoolerIsRefused(t *testing.T) {
	noGoroutineLeft(t)
	for _, busy := range []bool{false, true} {
		for _, way := range []struct {
			name string
			kind kind
			dsn  string
		}{{"pq", libpq, ""}, {"pgx", pgxStdlib, "default_query_exec_mode=exec"}, {"pgx that prepares", pgxStdlib, ""}} {
			t.Run(fmt.Sprintf("busy %v/%s", busy, way.name), func(t *testing.T) {
				e := newDatabaseEnv(t).table()
				b := e.bouncer(t, "transaction")
				dsn := func() string {
					d := b.DSN(e.database, pgserver.Param("application_name", e.app))
					if way.dsn != "" {
						d += "&" + way.dsn
					}
					return d
				}()
				if busy {
					keepBusy(t, e.open(t, libpq, b.DSN(e.database, pgserver.Param("application_name", e.app))), true)
				}
				for range 5 {
					db := e.open(t, way.kind, dsn)
					refusesHybrid(t, e, hybridClient(t, db), "pooler", "table backend")
				}
			})
		}
	}
}

// keepBusy has several clients of a pooler run a transaction each, or transactions until t ends.
func keepBusy(t *testing.T, db *sql.DB, always bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				_, _ = db.Exec("SELECT pg_sleep(0.002)")
				if !always || ctx.Err() != nil {
					return
				}
			}
		})
	}
	if !always {
		wg.Wait()
	}
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// TestTableModeBehindATransactionPooler (S1) works, and is the way out that the refusal names.
func TestTableModeBehindATransactionPooler(t *testing.T) {
	noGoroutineLeft(t)
	e := newDatabaseEnv(t).table()
	b := e.bouncer(t, "transaction")
	for _, k := range two {
		dsn := b.DSN(e.database, pgserver.Param("application_name", e.app))
		if k.name == pgxStdlib.name {
			dsn += "&default_query_exec_mode=exec"
		}
		l := mustTry(t, client(t, e.open(t, k, dsn)), "name")
		mustBeHeldNow(t, hybridClient(t, e.open(t, k, e.dsn())), "name")
		mustRelease(t, l)
	}
}

// TestSessionPoolerIsAccepted (S1): a session of its own is all that hybrid needs.
func TestSessionPoolerIsAccepted(t *testing.T) {
	noGoroutineLeft(t)
	for _, k := range two {
		t.Run(k.name, func(t *testing.T) {
			e := newDatabaseEnv(t).table()
			b := e.bouncer(t, "session")
			db := e.open(t, k, b.DSN(e.database, pgserver.Param("application_name", e.app)))
			direct := hybridClient(t, e.open(t, k, e.dsn()))
			c := hybridClient(t, db, pglease.WithSessionCheck(50*time.Millisecond))
			l := mustTry(t, c, e.schema)
			if held := mustBeHeldNow(t, direct, e.schema); held.Mode != pglease.ModeHybrid {
				t.Errorf("held in mode %q", held.Mode)
			}
			e.terminate(t)
			lossOf(t, l, pglease.LossSession)
			mustRelease(t, mustAcquire(t, direct, e.schema))
			mustRelease(t, mustAcquire(t, c, e.schema))
			e.noLockInDatabase(t)
		})
	}
}

// TestStandbyIsRefusedByHybrid (S2): its advisory locks are in a space of their own.
func TestStandbyIsRefusedByHybrid(t *testing.T) {
	p := breaking.get(t, "standby")
	noGoroutineLeft(t)
	standby := startStandby(t, p)
	for _, k := range two {
		t.Run(k.name, func(t *testing.T) {
			e := newEnvAt(t, p).table()
			db := e.open(t, k, standby.DSN(pgserver.Database(e.database), pgserver.Param("search_path", e.schema)))
			eventually(t, "the standby to have the table", func() bool {
				return db.QueryRow("SELECT FROM pglease_leases").Scan() == sql.ErrNoRows
			})
			refusesHybrid(t, e, hybridClient(t, db), "standby", "primary")
			given := conn(t, db)
			refusesHybrid(t, e, hybridClient(t, given), "standby", "primary")
			var mark sql.NullString
			if err := given.QueryRowContext(testContext(t), "SELECT current_setting('pglease.mark', true)").Scan(&mark); err != nil || mark.String != "" {
				t.Errorf("the given connection was left with a mark: %q, %v", mark.String, err)
			}
			if n := locksOn(t, db); n != 0 {
				t.Errorf("%d advisory locks on the standby", n)
			}
		})
	}
}

func startStandby(t *testing.T, p *place) *pgserver.Server {
	t.Helper()
	standby, err := p.Standby(testContext(t))
	if err != nil {
		pgserver.NotRun(t, "standby", err.Error())
	}
	t.Cleanup(func() {
		if err := standby.Stop(); err != nil {
			t.Error(err)
		}
	})
	return standby
}

func locksOn(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(testContext(t), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").Scan(&n); err != nil {
		t.Error(err)
	}
	return n
}

// TestShadowedAdvisoryFunctionsDoNotMatter (S5): everything is written as pg_catalog.
func TestShadowedAdvisoryFunctionsDoNotMatter(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		for _, f := range []string{"pg_try_advisory_lock", "pg_advisory_unlock"} {
			e.exec(fmt.Sprintf("CREATE FUNCTION %s(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'", f))
		}
		dsn := e.dsn(pgserver.Param("search_path", e.schema+",pg_catalog"))
		db := e.hybridPool(t, k, dsn)
		a, b := hybridClient(t, db), hybridClient(t, db)
		l := mustTry(t, a, e.schema)
		if held := mustBeHeldNow(t, b, e.schema); held.Owner != l.Owner() {
			t.Errorf("held by %+v", held.Info)
		}
		if e.holderPID() == 0 {
			t.Error("no session has the lock")
		}
		mustRelease(t, l)
	})
}

// TestAdvisoryStubsAreRefused (S5): functions of pg_catalog itself that always answer true, as CockroachDB has them.
func TestAdvisoryStubsAreRefused(t *testing.T) {
	noGoroutineLeft(t)
	for _, k := range two {
		t.Run(k.name, func(t *testing.T) {
			e := newDatabaseEnv(t).table()
			ctx := testContext(t)
			admin := conn(t, e.admin)
			for _, statement := range []string{
				"SET allow_system_table_mods = on",
				"ALTER FUNCTION pg_catalog.pg_try_advisory_lock(bigint) RENAME TO real_try_advisory_lock",
				"CREATE FUNCTION pg_catalog.pg_try_advisory_lock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
				"ALTER FUNCTION pg_catalog.pg_advisory_unlock(bigint) RENAME TO real_advisory_unlock",
				"CREATE FUNCTION pg_catalog.pg_advisory_unlock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
			} {
				if _, err := admin.ExecContext(ctx, statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			refusesHybrid(t, e, hybridClient(t, e.hybridPool(t, k, e.dsn())), "advisory locks", "table backend")
		})
	}
}

// TestOneConnectionAndHybrid (P2): a lease is held and handed over without evidence; whatever else would need a connection says
// at once that there is none.
func TestOneConnectionAndHybrid(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		ctx := testContext(t)
		db := e.hybridPool(t, k, e.dsn())
		db.SetMaxOpenConns(1)
		c := hybridClient(t, db, pglease.WithHeartbeatInterval(20*time.Millisecond))
		l := mustTry(t, c, e.schema)
		if held := mustBeHeldNow(t, hybridClient(t, e.hybridPool(t, k, e.dsn())), e.schema); held.Mode != pglease.ModeTable {
			t.Errorf("evidence by a client that could not look for a pooler: %+v", held.Info)
		}
		begun := time.Now()
		for what, err := range map[string]error{
			"TryAcquire":    second(c.TryAcquire(ctx, "another")),
			"Acquire":       second(c.Acquire(ctx, "another")),
			"AcquireAll":    second(c.AcquireAll(ctx, []string{"another", "and another"})),
			"Get":           second(c.Get(ctx, e.schema)),
			"List":          second(c.List(ctx)),
			"ForceRelease":  second(c.ForceRelease(ctx, e.schema)),
			"DeleteExpired": second(c.DeleteExpired(ctx, 0)),
		} {
			mustBeUnsupported(t, what, err, "connection")
		}
		if took := time.Since(begun); took > patience/2 {
			t.Errorf("the refusals took %v", took)
		}
		mustBeHeldNow(t, c, e.schema)
		waited := make(chan error, 1)
		go func() {
			next, err := c.Acquire(ctx, e.schema)
			if err == nil {
				err = next.Release(ctx)
			}
			waited <- err
		}()
		until := l.ExpiresAt().Add(200 * time.Millisecond)
		eventually(t, "heartbeats", func() bool { return l.Err() != nil || l.ExpiresAt().After(until) })
		if err := errors.Join(l.Renew(ctx), l.Err()); err != nil {
			t.Error(err)
		}
		mustRelease(t, l)
		if err := await(t, "the waiter", waited); err != nil {
			t.Errorf("the waiter: %v", err)
		}
	})
}

// TestTooManyConnections (P7): the error says how many connections are pinned.
func TestTooManyConnections(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		name, as := e.role("CONNECTION LIMIT 4")
		e.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON pglease_leases TO " + name)
		c := hybridClient(t, e.hybridPool(t, k, e.dsn()))
		limited := hybridClient(t, e.open(t, k, e.dsn(as)))
		var err error
		for i := 0; i < 5 && err == nil; i++ {
			_, err = limited.TryAcquire(testContext(t), fmt.Sprint(e.schema, i))
		}
		mustBeBackend(t, "one lease too many", err, "53300", "4 connections pinned", "pins a connection")
		mustRelease(t, mustTry(t, c, strings.ToUpper(e.schema)))
	})
}
