package driver_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

// patience is how long anything may take that should happen soon. It is only ever used up by a failure.
const patience = 20 * time.Second

// longTTL is so long that no lease ends for want of a heartbeat, however slow the machine.
const longTTL = 5 * time.Minute

// An env is a schema of its own, with a name by which the sessions of its test are known to the server. At the end of the
// test nothing of it may be left: no goroutine, no session, no lock.
type env struct {
	t        *testing.T
	place    *place
	database string
	schema   string
	app      string
	admin    *sql.DB // as superuser, in this schema
}

// newEnv returns an env on the shared server, without a lease table.
func newEnv(t *testing.T) *env { return newEnvAt(t, shared) }

func newEnvAt(t *testing.T, p *place) *env {
	t.Helper()
	e := emptyEnv(t, p, p.database)
	e.exec("CREATE SCHEMA " + e.schema)
	t.Cleanup(func() { e.exec("DROP SCHEMA " + e.schema + " CASCADE") })
	return e
}

// newDatabaseEnv returns an env with a database of its own, for settings of a database.
func newDatabaseEnv(t *testing.T) *env {
	t.Helper()
	name, err := shared.CreateDatabase(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := shared.DropDatabase(ctx, name); err != nil {
			t.Error(err)
		}
	})
	e := emptyEnv(t, shared, name)
	e.exec("CREATE SCHEMA " + e.schema)
	return e
}

func emptyEnv(t *testing.T, p *place, database string) *env {
	t.Helper()
	if !strings.Contains(t.Name(), "/") {
		noGoroutineLeft(t)
	}
	id := strings.ToLower(rand.Text()[:12])
	e := &env{t: t, place: p, database: database, schema: "s_" + id, app: "pglease-test-" + id}
	config, err := pgx.ParseConfig(e.dsn(pgserver.Param("application_name", e.app+"-admin")))
	if err != nil {
		t.Fatal(err)
	}
	// A test that restarts the server wants no answer from a connection that died with it.
	always := func(context.Context, stdlib.ShouldPingParams) bool { return true }
	e.admin = stdlib.OpenDB(*config, stdlib.OptionShouldPing(always))
	e.admin.SetMaxOpenConns(6)
	t.Cleanup(func() { _ = e.admin.Close() })
	t.Cleanup(e.nothingLeft)
	return e
}

// noGoroutineLeft has a test fail if there are more goroutines at its end than now. Call it first in a test with parallel
// subtests; newEnv calls it for the others.
func noGoroutineLeft(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if t.Failed() {
			return // what did not end properly has leaked for a reason that has been told
		}
		var err error
		serverProcess := goleak.IgnoreAnyFunction("github.com/pglease/pglease-go/driver_test/pgserver.spawn.func1") // of a restarted one
		if !poll(func() bool { err = goleak.Find(before, serverProcess); return err == nil }) {
			t.Error(err)
		}
	})
}

// nothingLeft checks that the server has no session of the test left. With the sessions have gone their locks.
func (e *env) nothingLeft() {
	var left string
	if !poll(func() bool {
		left = value[string](e, `SELECT coalesce(string_agg(state || ': ' || query, '; '), '') FROM pg_stat_activity
			WHERE application_name = $1`, e.app)
		return left == ""
	}) {
		e.t.Errorf("sessions left on the server: %s", left)
	}
}

// noLock checks that no session of the test holds an advisory lock or stands in a transaction.
func (e *env) noLock() {
	e.t.Helper()
	var left string
	if !poll(func() bool {
		left = value[string](e, `SELECT coalesce(string_agg(concat_ws(' ', locktype, relation::regclass, mode, granted, 'of', l.pid, state,
				wait_event, 'since', clock_timestamp() - state_change, left(query, 60)), E';\n' ORDER BY l.pid), '')
			FROM pg_locks AS l JOIN pg_stat_activity USING (pid)
			WHERE locktype IN ('advisory', 'relation', 'transactionid') AND application_name = $1`, e.app)
		return left == ""
	}) {
		e.t.Errorf("locks left on the server: %s", left)
	}
}

func (e *env) dsn(opts ...pgserver.DSNOption) string {
	opts = append([]pgserver.DSNOption{
		pgserver.Database(e.database), pgserver.Param("search_path", e.schema), pgserver.Param("application_name", e.app),
	}, opts...)
	return e.place.DSN(opts...)
}

// exec runs a statement as superuser.
func (e *env) exec(statement string, args ...any) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := e.admin.ExecContext(ctx, statement, args...); err != nil {
		e.t.Errorf("%s: %v", statement, err)
	}
}

// value reads one value as superuser.
func value[T any](e *env, query string, args ...any) (v T) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := e.admin.QueryRowContext(ctx, query, args...).Scan(&v); err != nil {
		e.t.Errorf("%s: %v", query, err)
	}
	return v
}

// table creates the lease table.
func (e *env) table() *env {
	e.t.Helper()
	c, err := pglease.New(e.admin)
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.EnsureSchema(ctx); err != nil {
		e.t.Fatal(err)
	}
	if err := c.Close(ctx); err != nil {
		e.t.Fatal(err)
	}
	return e
}

// client returns a client of d that is closed when t ends. t may be a subtest of the env's.
func client(t *testing.T, d pglease.DB, opts ...pglease.Option) *pglease.Client {
	t.Helper()
	opts = append([]pglease.Option{pglease.WithTTL(longTTL), pglease.WithPollInterval(20 * time.Millisecond)}, opts...)
	c, err := pglease.New(d, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("closing a client: %v", err)
		}
	})
	return c
}

// role creates a role that may connect and see the schema, and returns the option that makes a DSN its own.
func (e *env) role(attributes ...string) (name string, as pgserver.DSNOption) {
	e.t.Helper()
	name, password := "r_"+strings.ToLower(rand.Text()[:12]), rand.Text()
	e.exec(fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s' %s", name, password, strings.Join(attributes, " ")))
	e.exec(fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s", e.schema, name))
	e.t.Cleanup(func() {
		poll(func() bool { // its sessions end a moment after their connections
			return value[int](e, "SELECT count(*)::int FROM pg_stat_activity WHERE usename = $1", name) == 0
		})
		e.exec("DROP OWNED BY " + name)
		e.exec("DROP ROLE " + name)
	})
	return name, pgserver.User(name, password)
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	return ctx
}

// poll asks until the answer is yes, and reports whether it was before patience ran out.
func poll(yes func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		if yes() {
			return true
		}
	}
	return yes()
}

// eventually is poll that ends the test if the answer stays no.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	if !poll(yes) {
		t.Fatalf("%s: not within %v", what, patience)
	}
}

// await receives from c.
func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v = <-c:
	case <-timer.C:
		t.Fatalf("%s: not within %v", what, patience)
	}
	return v
}
