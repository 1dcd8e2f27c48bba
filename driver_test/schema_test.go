package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/schema"
)

// pythonTable is the table of the Python package.
const pythonTable = `CREATE TABLE pglease_leases (
	task_name varchar(255) PRIMARY KEY, owner_id varchar(255) NOT NULL,
	acquired_at timestamptz NOT NULL, expires_at timestamptz NOT NULL, heartbeat_at timestamptz NOT NULL)`

// oneTask is the task of a child that connects and does one thing.
type oneTask struct{ Driver, DSN string }

// playEnsure calls EnsureSchema when its parent says so, by the end of its standard input: all children at once.
func playEnsure(ctx context.Context, encoded []byte) error {
	var task oneTask
	if err := json.Unmarshal(encoded, &task); err != nil {
		return err
	}
	db, done, err := kindOf(task.Driver).open(task.DSN, nil)
	if err != nil {
		return err
	}
	defer done()
	defer db.Close()
	c, err := pglease.New(db)
	if err != nil {
		return err
	}
	if err := db.Ping(); err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	ctx = context.WithoutCancel(ctx)
	return errors.Join(c.EnsureSchema(ctx), c.EnsureSchema(ctx), c.Close(ctx))
}

// TestEnsureSchemaFromFiftyProcessesAtOnce (D1): none fails, whether there is a table, one of Python's, or none.
func TestEnsureSchemaFromFiftyProcessesAtOnce(t *testing.T) {
	noGoroutineLeft(t)
	for _, from := range []struct{ name, table string }{{"nothing", "SELECT 1"}, {"the Python table", pythonTable}} {
		t.Run("from "+from.name, func(t *testing.T) {
			e := newEnv(t)
			e.exec(from.table)
			children := make([]*child, 50)
			for i := range children {
				children[i] = spawn(t, "ensure schema", oneTask{two[i%len(two)].name, e.dsn()})
			}
			for _, c := range children {
				if !c.lines.Scan() || c.lines.Text() != "ready" {
					t.Fatalf("a process did not start: %v", c.wait())
				}
			}
			for _, c := range children {
				c.stop()
			}
			for _, c := range children {
				if err := c.wait(); err != nil {
					t.Errorf("a process failed: %v", err)
				}
			}
			tryOnce(t, client(t, e.open(t, libpq, e.dsn())), "name")
		})
	}
}

// tryOnce acquires and releases.
func tryOnce(t *testing.T, c *pglease.Client, name string) {
	t.Helper()
	l, err := c.TryAcquire(testContext(t), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

// TestEnsureSchemaNeedsNoRightToCreateIfTheTableIsThere (D2), and says what to do if it is not.
func TestEnsureSchemaNeedsNoRightToCreateIfTheTableIsThere(t *testing.T) {
	noGoroutineLeft(t)
	for _, k := range two {
		t.Run(k.name, func(t *testing.T) {
			e := newEnv(t)
			name, as := e.role()
			c := client(t, e.open(t, k, e.dsn(as)))
			mustBeBackend(t, "EnsureSchema without the right to create", c.EnsureSchema(testContext(t)), "42501", "grants.sql")

			e.table()
			if err := c.EnsureSchema(testContext(t)); err != nil {
				t.Errorf("the table is there: %v", err)
			}
			_, err := c.TryAcquire(testContext(t), "name")
			mustBeBackend(t, "without any right on the table", err, "42501", "grants.sql")

			// The script of schema/grants.sql is enough for everything.
			script, err := fs.ReadFile(schema.FS, "grants.sql")
			if err != nil {
				t.Fatal(err)
			}
			e.exec(strings.ReplaceAll(string(script), "pglease_worker", name))
			tryOnce(t, c, "name")
			everyCall(t, c, nil)
		})
	}
}

// everyCall makes each kind of call once; want says what each should fail with, or nil.
func everyCall(t *testing.T, c *pglease.Client, want map[string]string) {
	t.Helper()
	ctx := testContext(t)
	var l *pglease.Lease
	for _, call := range []struct {
		name string
		do   func() error
	}{
		{"acquire", func() (err error) { l, err = c.TryAcquire(ctx, "every call"); return err }},
		{"renew", func() error { return l.Renew(ctx) }},
		{"get", func() error { _, err := c.Get(ctx, "every call"); return err }},
		{"list", func() error { _, err := c.List(ctx); return err }},
		{"force release", func() error { _, err := c.ForceRelease(ctx, "every call"); return err }},
		{"delete", func() error { _, err := c.DeleteExpired(ctx, 0); return err }},
	} {
		if call.name == "renew" && l == nil {
			continue
		}
		err := call.do()
		if state := want[call.name]; state != "" {
			mustBeBackend(t, call.name, err, state)
		} else if err != nil {
			t.Errorf("%s: %v", call.name, err)
		}
	}
}

// mustBeBackend checks that err is a *BackendError of that SQLSTATE, and what its text says.
func mustBeBackend(t *testing.T, what string, err error, state string, texts ...string) {
	t.Helper()
	var b *pglease.BackendError
	if !errors.As(err, &b) || b.SQLState != state {
		t.Errorf("%s: %v (%T); want a *BackendError with SQLSTATE %q", what, err, err, state)
		return
	}
	if errors.Is(err, pglease.ErrHeld) || errors.Is(err, pglease.ErrLost) {
		t.Errorf("%s: a failure of the database says held or lost: %v", what, err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v; want %q in it", what, err, text)
		}
	}
}

// TestMissingRightsAreNamed: each right that a role lacks is an error of its own, and never "held".
func TestMissingRightsAreNamed(t *testing.T) {
	noGoroutineLeft(t)
	for _, k := range two {
		for right, fails := range map[string]map[string]string{
			"SELECT": {"acquire": "42501", "get": "42501", "list": "42501", "force release": "42501", "delete": "42501"},
			"INSERT": {"acquire": "42501"},
			"UPDATE": {"acquire": "42501", "force release": "42501", "delete": "42501"}, // FOR UPDATE needs it
			"DELETE": {"delete": "42501"},
		} {
			t.Run(k.name+"/without "+right, func(t *testing.T) {
				e := newEnv(t).table()
				e.exec(`INSERT INTO pglease_leases (task_name, owner_id, acquired_at, expires_at, heartbeat_at)
					VALUES ('every call', 'gone', now(), now(), now())`)
				name, as := e.role()
				e.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON pglease_leases TO " + name)
				e.exec("REVOKE " + right + " ON pglease_leases FROM " + name)
				everyCall(t, client(t, e.open(t, k, e.dsn(as))), fails)
			})
		}
	}
}

// TestTablesThatDoNotFitAreRefused, with a text that says why, and nothing is changed.
func TestTablesThatDoNotFitAreRefused(t *testing.T) {
	noGoroutineLeft(t)
	const ours = "CREATE %s TABLE pglease_leases (task_name %s, owner_id varchar(255) NOT NULL, acquired_at %s, " +
		"expires_at timestamptz NOT NULL, heartbeat_at timestamptz NOT NULL %s)"
	for _, c := range []struct{ name, table, text string }{
		{"unlogged S8", fmt.Sprintf(ours, "UNLOGGED", "text PRIMARY KEY", "timestamptz NOT NULL", ""), "LOGGED"},
		{"naive timestamps C3", fmt.Sprintf(ours, "", "text PRIMARY KEY", "timestamp NOT NULL", ""), "acquired_at"},
		{"no unique name", fmt.Sprintf(ours, "", "text", "timestamptz NOT NULL", ""), "unique"},
		{"token of another type", fmt.Sprintf(ours, "", "text PRIMARY KEY", "timestamptz NOT NULL", ", token text"), "token"},
		{"another table", "CREATE TABLE pglease_leases (id int)", "task_name"},
		{"a view", "CREATE VIEW pglease_leases AS SELECT 1 AS task_name", "not a table"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t)
			e.exec(c.table)
			describe := func() string {
				return value[string](e, `SELECT string_agg(attname || ' ' || atttypid::regtype, ', ' ORDER BY attnum)
					FROM pg_attribute WHERE attrelid = 'pglease_leases'::regclass AND attnum > 0`)
			}
			before := describe()
			err := client(t, e.open(t, pgxStdlib, e.dsn())).EnsureSchema(testContext(t))
			var unsupported *pglease.UnsupportedError
			if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), e.schema) {
				t.Errorf("EnsureSchema: %v; want an *UnsupportedError that names %q and the schema", err, c.text)
			}
			if after := describe(); after != before {
				t.Errorf("the table was %s, is %s", before, after)
			}
		})
	}
}

// TestMissingTableNamesTheSearchPath (D7): no table, no schema of that name, a table that lacks our columns.
func TestMissingTableNamesTheSearchPath(t *testing.T) {
	noGoroutineLeft(t)
	for _, k := range three {
		t.Run(k.name, func(t *testing.T) {
			e := newEnv(t)
			for _, path := range []string{e.schema, "no_such_schema"} {
				c := client(t, e.open(t, k, e.dsn(pgserver.Param("search_path", path))))
				_, tryErr := c.TryAcquire(testContext(t), "name")
				_, waitErr := c.Acquire(testContext(t), "name")
				leadErr := c.Lead(testContext(t), "name", func(context.Context, *pglease.Lease) error { return nil })
				_, getErr := c.Get(testContext(t), "name")
				for what, err := range map[string]error{"TryAcquire": tryErr, "Acquire": waitErr, "Lead": leadErr, "Get": getErr} {
					if !errors.Is(err, pglease.ErrNoSchema) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "EnsureSchema") {
						t.Errorf("%s: %v; want ErrNoSchema that names %s", what, err, path)
					}
				}
			}
			c := client(t, e.open(t, k, e.dsn(pgserver.Param("search_path", "no_such_schema"))))
			if err := c.EnsureSchema(testContext(t)); !errors.Is(err, pglease.ErrNoSchema) || !strings.Contains(err.Error(), "no_such_schema") {
				t.Errorf("EnsureSchema without a schema to create in: %v", err)
			}
			e.exec(pythonTable)
			c = client(t, e.open(t, k, e.dsn()))
			if _, err := c.TryAcquire(testContext(t), "name"); !errors.Is(err, pglease.ErrNoSchema) {
				t.Errorf("TryAcquire on the Python table: %v; want ErrNoSchema", err)
			}
			if err := c.EnsureSchema(testContext(t)); err != nil {
				t.Fatal(err)
			}
			tryOnce(t, c, "name")
		})
	}
}

// TestWorksOnALaterVersionOfTheTable: columns that a later version adds are of no concern, also while it adds them (D4).
func TestWorksOnALaterVersionOfTheTable(t *testing.T) {
	each(t, three, func(t *testing.T, e *env, k kind) {
		c := client(t, e.open(t, k, e.dsn()))
		tryOnce(t, c, "name") // statements are prepared by now
		e.exec("ALTER TABLE pglease_leases ADD COLUMN later text, ADD COLUMN latest int NOT NULL DEFAULT 7")
		e.exec("COMMENT ON TABLE pglease_leases IS 'schema version 99'")
		if err := c.EnsureSchema(testContext(t)); err != nil {
			t.Errorf("EnsureSchema: %v", err)
		}
		everyCall(t, c, nil)
		if n := value[int](e, "SELECT count(*)::int FROM pg_attribute WHERE attrelid = 'pglease_leases'::regclass AND attname LIKE 'late%'"); n != 2 {
			t.Error("EnsureSchema has changed a later version")
		}
	})
}
