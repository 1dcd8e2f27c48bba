package driver_test

import (
	"database/sql"
	"testing"

	"github.com/pglease/pglease-go/driver_test/pgserver"
)

// inEachSession runs f on n connections of the pool, of which no two are the same.
func inEachSession(t *testing.T, db *sql.DB, n int, f func(c *sql.Conn)) {
	t.Helper()
	for range n {
		c, err := db.Conn(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		f(c)
	}
}

// TestStatementsStayPrepared: once in each session, however many leases it has had; and a session that has lost them, as DISCARD ALL
// and DEALLOCATE do, does as well as a new one.
func TestStatementsStayPrepared(t *testing.T) {
	e := newEnv(t).table()
	db := e.open(t, libpq, e.dsn())
	const sessions = 3
	db.SetMaxOpenConns(sessions)
	db.SetMaxIdleConns(sessions)
	c := hybridClient(t, db)
	cycle := func() {
		t.Helper()
		l := mustTry(t, c, e.schema)
		if err := l.Renew(testContext(t)); err != nil {
			t.Error(err)
		}
		next := mustTryAny(t, c, e.schema+" 1", e.schema+" 2")
		mustBeHeldNow(t, c, e.schema)
		mustRelease(t, next)
		mustRelease(t, l)
	}
	prepared := func() (most int) {
		inEachSession(t, db, sessions, func(c *sql.Conn) {
			var n int
			if err := c.QueryRowContext(testContext(t), "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%pglease_leases%'").Scan(&n); err != nil {
				t.Error(err)
			}
			most = max(most, n)
		})
		return most
	}
	for _, discard := range []string{"DEALLOCATE ALL", "DISCARD ALL", "DISCARD PLANS"} {
		for range 20 {
			cycle()
		}
		if n := prepared(); n == 0 || n > 6 {
			t.Errorf("before %s: a session has %d prepared statements, want 1 to 6", discard, n)
		}
		inEachSession(t, db, sessions, func(c *sql.Conn) {
			if _, err := c.ExecContext(testContext(t), discard); err != nil {
				t.Fatal(err)
			}
		})
	}
	cycle()
}

// TestStatementsOfAnotherClientBefore: a pooler in session mode that resets nothing hands on a session in which the names are taken.
func TestStatementsOfAnotherClientBefore(t *testing.T) {
	e := newEnv(t).table()
	b := e.bouncer(t, "session", pgserver.WithSetting("server_reset_query", ""), pgserver.WithSetting("default_pool_size", "3"))
	for range 3 {
		db := e.open(t, libpq, b.DSN(e.database, pgserver.Param("application_name", e.app)))
		c := hybridClient(t, db)
		for range 2 {
			mustRelease(t, mustTry(t, c, e.schema))
		}
		if err := c.Close(testContext(t)); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
