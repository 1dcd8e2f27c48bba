package driver_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

// password is what no text may contain, nor any part of it.
const password = "Sv3rjE!tre-k%20ronor"

// mustHide checks every form in which an error can be shown, and those of its causes.
func mustHide(t *testing.T, what string, err error) {
	t.Helper()
	encoded, _ := json.Marshal(err)
	forms := []string{string(encoded)}
	for e := err; e != nil; e = errors.Unwrap(e) {
		forms = append(forms, fmt.Sprintf("%v", e), fmt.Sprintf("%+v", e), fmt.Sprintf("%#v", e), fmt.Sprintf("%q", e), e.Error())
	}
	var b *pglease.BackendError
	if errors.As(err, &b) {
		forms = append(forms, fmt.Sprintf("%v", *b), fmt.Sprintf("%+v", *b), fmt.Sprintf("%#v", *b))
	}
	for _, form := range forms {
		for _, secret := range []string{password, url.QueryEscape(password), url.PathEscape(password), password[:8], password[8:]} {
			if strings.Contains(form, secret) {
				t.Errorf("%s shows the password: %s", what, form)
				return
			}
		}
	}
}

// An outage is one way in which a database cannot be had.
type outage struct {
	name string
	open func(t *testing.T, e *env, k kind) pglease.DB
	ctx  func(t *testing.T) context.Context
	want string // in the text
	is   error
}

func withDSN(dsn func(e *env) string) func(t *testing.T, e *env, k kind) pglease.DB {
	return func(t *testing.T, e *env, k kind) pglease.DB { return e.open(t, k, dsn(e)) }
}

// escaped is the password as a URL wants it.
var escaped = url.UserPassword("u", password).String()[2:]

var outages = []outage{
	{name: "wrong password X1", want: "28P01", open: withDSN(func(e *env) string {
		return e.dsn(pgserver.User("postgres_is_not_here", password))
	})},
	{name: "connection refused X1", want: "refused", open: withDSN(func(*env) string {
		return "postgres://u:" + escaped + "@127.0.0.1:1/d?sslmode=disable&connect_timeout=5"
	})},
	{name: "no such host X1", want: "no-such-host.invalid", open: withDSN(func(*env) string {
		return "postgres://u:" + escaped + "@no-such-host.invalid/d?sslmode=disable&connect_timeout=5"
	})},
	{name: "no such database X1", want: "3D000", open: withDSN(func(e *env) string { return e.dsn(pgserver.Database("no_such_database")) })},
	{name: "TLS that the server has not X1", want: "server", open: withDSN(func(e *env) string {
		return e.dsn(pgserver.Param("sslmode", "require"))
	})},
	{name: "closed database", want: "closed", open: func(t *testing.T, e *env, k kind) pglease.DB {
		db, done, err := k.open(e.dsn(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = db.Close()
		done()
		return db
	}},
	{name: "closed connection", want: "closed", open: func(t *testing.T, e *env, k kind) pglease.DB {
		c := conn(t, e.open(t, k, e.dsn()))
		_ = c.Close()
		return c
	}},
	{name: "full pool", want: "deadline", is: context.DeadlineExceeded, open: func(t *testing.T, e *env, k kind) pglease.DB {
		db := e.open(t, k, e.dsn())
		db.SetMaxOpenConns(1)
		conn(t, db)
		return db
	}, ctx: func(t *testing.T) context.Context { return canceledSoon(t, 100*time.Millisecond) }},
	{name: "cancelled context", want: "canceled", is: context.Canceled, open: withDSN((*env).plain), ctx: func(*testing.T) context.Context { return canceled() }},
	{name: "expired context", want: "deadline", is: context.DeadlineExceeded, open: withDSN((*env).plain), ctx: func(t *testing.T) context.Context {
		ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
		t.Cleanup(cancel)
		return ctx
	}},
}

func (e *env) plain() string { return e.dsn() }

// TestAnOutageIsNeverHeld: every call says what is the matter, shows no password, and changes nothing.
func TestAnOutageIsNeverHeld(t *testing.T) {
	noGoroutineLeft(t)
	for _, o := range outages {
		for _, k := range two {
			t.Run(o.name+"/"+k.name, func(t *testing.T) {
				e := newEnv(t).table()
				c := client(t, o.open(t, e, k), pglease.WithRetry(2, time.Millisecond))
				base := testContext
				if o.ctx != nil {
					base = o.ctx
				}
				calls := map[string]func(ctx context.Context) error{
					"TryAcquire":    func(ctx context.Context) error { return second(c.TryAcquire(ctx, "name")) },
					"Acquire":       func(ctx context.Context) error { return second(c.Acquire(ctx, "name")) },
					"Get":           func(ctx context.Context) error { return second(c.Get(ctx, "name")) },
					"List":          func(ctx context.Context) error { return second(c.List(ctx)) },
					"ForceRelease":  func(ctx context.Context) error { return second(c.ForceRelease(ctx, "name")) },
					"DeleteExpired": func(ctx context.Context) error { return second(c.DeleteExpired(ctx, 0)) },
					"EnsureSchema":  c.EnsureSchema,
					"Do": func(ctx context.Context) error {
						return c.Do(ctx, "name", func(context.Context, *pglease.Lease) error { t.Error("it ran"); return nil })
					},
				}
				for name, call := range calls {
					begun := time.Now()
					err := call(base(t))
					if err == nil || errors.Is(err, pglease.ErrHeld) || errors.Is(err, pglease.ErrNotFound) || errors.Is(err, pglease.ErrNoSchema) {
						t.Errorf("%s: %v", name, err)
						continue
					}
					if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(o.want)) {
						t.Errorf("%s: %v; want %q in it", name, err, o.want)
					}
					if o.is != nil && !errors.Is(err, o.is) {
						t.Errorf("%s: %v; want %v", name, err, o.is)
					}
					mustHide(t, name, err)
					if took := time.Since(begun); took > patience/2 {
						t.Errorf("%s took %v", name, took)
					}
				}
				if n := value[int](e, "SELECT count(*)::int FROM pglease_leases"); n != 0 {
					t.Errorf("%d rows were made", n)
				}
			})
		}
	}
}

// TestMalformedDSN (X1): the driver's own error, which our client only meets through a lazy sql.Open.
func TestMalformedDSN(t *testing.T) {
	noGoroutineLeft(t)
	for driver, dsns := range map[string][]string{
		"postgres": {"postgres://u:" + password + "@h:port/d", "postgres://u:" + password + "\x7f@h/d", "host=h password='" + password + " dbname=d"},
		"pgx":      {"postgres://u:" + password + "@h:port/d", "postgres://u:" + password + "\x7f@h/d", "host=h password='" + password + " dbname=d"},
	} {
		for i, dsn := range dsns {
			t.Run(fmt.Sprintf("%s/%d", driver, i), func(t *testing.T) {
				db, err := sql.Open(driver, dsn)
				if err != nil {
					return // refused before we could see it
				}
				defer db.Close()
				err = second(client(t, db).TryAcquire(testContext(t), "name"))
				if err == nil || errors.Is(err, pglease.ErrHeld) {
					t.Fatalf("TryAcquire: %v", err)
				}
				mustHide(t, "TryAcquire", err)
			})
		}
	}
}

// TestReadOnlyServer (S2, S6): a standby, and a primary that refuses writes, are named. What reads works.
func TestReadOnlyServer(t *testing.T) {
	noGoroutineLeft(t)
	for _, k := range two {
		t.Run(k.name, func(t *testing.T) {
			e := newEnv(t).table()
			refusesWrites(t, client(t, e.open(t, k, e.dsn(pgserver.Param("default_transaction_read_only", "on")))))
		})
	}
}

func refusesWrites(t *testing.T, c *pglease.Client) {
	t.Helper()
	ctx := testContext(t)
	for what, err := range map[string]error{
		"TryAcquire":    second(c.TryAcquire(ctx, "name")),
		"Acquire":       second(c.Acquire(ctx, "name")),
		"DeleteExpired": second(c.DeleteExpired(ctx, 0)),
	} {
		mustBeBackend(t, what, err, "25006", "read only", "primary")
	}
	if _, err := c.Get(ctx, "name"); !errors.Is(err, pglease.ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	if err := c.EnsureSchema(ctx); err != nil {
		t.Errorf("EnsureSchema of a current table: %v", err)
	}
	leadCtx, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	err := c.Lead(leadCtx, "name", func(context.Context, *pglease.Lease) error { t.Error("led"); return nil })
	if err != nil { // it had waited for a primary until it was told to stop
		t.Errorf("Lead: %v", err)
	}
}

func TestStandby(t *testing.T) {
	p := breaking.get(t, "standby")
	noGoroutineLeft(t)
	standby, err := p.Standby(testContext(t))
	if err != nil {
		pgserver.NotRun(t, "standby", err.Error())
	}
	t.Cleanup(func() {
		if err := standby.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, k := range two {
		t.Run(k.name, func(t *testing.T) {
			e := newEnvAt(t, p).table()
			db := e.open(t, k, standby.DSN(pgserver.Database(e.database), pgserver.Param("search_path", e.schema)))
			eventually(t, "the standby to have the table", func() bool {
				return db.QueryRow("SELECT FROM pglease_leases").Scan() == sql.ErrNoRows
			})
			refusesWrites(t, client(t, db))
		})
	}
}
