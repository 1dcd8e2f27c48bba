//go:build unix

package driver_test

import (
	"database/sql"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
)

// A diagnosis is one finding of pglease doctor --json.
type diagnosis struct{ Check, Severity, Finding, Remedy string }

// doctor runs it on a DSN and returns what is not ok.
func (e *env) doctor(t *testing.T, dsn string, want int, args ...string) (ill []diagnosis) {
	t.Helper()
	printed, said := e.pglease(t, want, append([]string{"PGLEASE_DSN=" + dsn, "doctor", "--json"}, args...)...)
	var all []diagnosis
	if err := json.Unmarshal([]byte(printed), &all); err != nil {
		t.Fatalf("%v: %s %s", err, printed, said)
	}
	for _, d := range all {
		if d.Severity != "ok" {
			ill = append(ill, d)
		}
		if (d.Severity == "ok") != (d.Remedy == "") {
			t.Errorf("a finding without a way out, or the reverse: %+v", d)
		}
	}
	return ill
}

// mustFind checks that there is a finding of that kind.
func mustFind(t *testing.T, ill []diagnosis, check, severity, words string) {
	t.Helper()
	for _, d := range ill {
		if d.Check == check && d.Severity == severity && strings.Contains(d.Finding, words) {
			return
		}
	}
	t.Errorf("no finding %s, %s, %q in %+v", check, severity, words, ill)
}

// with is a DSN whose session has further settings.
func (e *env) with(settings ...string) string {
	return e.dsn(pgserver.Param("options", "-c "+strings.Join(settings, " -c ")))
}

// A healthy server gives nothing to mend, and the settings of a session that are not right are found.
func TestDoctorSettings(t *testing.T) {
	e := newDatabaseEnv(t).table()
	for _, d := range e.doctor(t, e.dsn(), 0) {
		if d.Severity != "notice" || d.Check != "keepalives" {
			t.Errorf("on a healthy server: %+v", d)
		}
	}
	if ill := e.doctor(t, e.with("tcp_keepalives_idle=60"), 0); len(ill) > 0 {
		t.Errorf("on a healthy server: %+v", ill)
	}
	for _, tt := range []struct {
		setting, check, severity, words string
		code                            int
	}{
		{"tcp_keepalives_idle=7200", "keepalives", "notice", "2h", 0},
		{"tcp_user_timeout=1000", "keepalives", "warning", "1s", 1},
		{"default_transaction_isolation=serializable", "isolation", "notice", "serializable", 0},
		{"default_transaction_read_only=on", "primary", "error", "read only", 2},
		{"statement_timeout=100", "timeouts", "warning", "statement_timeout is 100ms", 1},
		{"idle_session_timeout=5000", "timeouts", "warning", "idle_session_timeout is 5s", 1},
		{"lock_timeout=10", "timeouts", "notice", "lock_timeout is 10ms", 0},
		{"synchronous_commit=off", "durability", "error", "synchronous_commit is off", 2},
	} {
		t.Run(tt.setting, func(t *testing.T) {
			mustFind(t, e.doctor(t, e.with(tt.setting), tt.code), tt.check, tt.severity, tt.words)
		})
	}
}

// What is wrong with the table, or with the rights on it, is found.
func TestDoctorTable(t *testing.T) {
	e := newDatabaseEnv(t)
	mustFind(t, e.doctor(t, e.dsn(), 2), "lease table", "error", "there is no lease table")
	e.pglease(t, 78, "schema", "check")
	apply := func(want string) {
		t.Helper()
		if printed, _ := e.pglease(t, 0, "schema", "apply"); !strings.HasSuffix(printed, want+"\n") {
			t.Errorf("schema apply printed %q", printed)
		}
	}
	apply(".pglease_leases was made")
	apply(".pglease_leases is current already")
	e.exec("DROP TABLE pglease_leases")
	e.exec(`CREATE TABLE pglease_leases (task_name varchar(255) PRIMARY KEY, owner_id varchar(255) NOT NULL, acquired_at timestamptz NOT NULL,
		expires_at timestamptz NOT NULL, heartbeat_at timestamptz NOT NULL)`)
	e.exec("CREATE INDEX idx_expires ON pglease_leases (expires_at)")
	ill := e.doctor(t, e.dsn(), 2)
	mustFind(t, ill, "lease table", "error", "Python")
	mustFind(t, ill, "indexes", "warning", "idx_expires")
	mustFind(t, ill, "bloat", "notice", "fillfactor")
	apply(".pglease_leases was upgraded")
	printed, _ := e.pglease(t, 0, "schema", "check")
	if !strings.Contains(printed, "is current") {
		t.Errorf("schema check printed %q", printed)
	}
	mustFind(t, e.doctor(t, e.dsn(), 1), "indexes", "warning", "idx_expires")
	e.exec("DROP INDEX idx_expires")
	e.doctor(t, e.dsn(), 0)

	e.exec("ALTER TABLE pglease_leases SET (autovacuum_enabled = false)")
	e.exec(`INSERT INTO pglease_leases SELECT 'n' || n, repeat('x', 100), now(), now(), now() FROM generate_series(1, 10000) AS n`)
	e.exec("DELETE FROM pglease_leases")
	ill = e.doctor(t, e.dsn(), 1)
	mustFind(t, ill, "bloat", "warning", "0 rows and")
	mustFind(t, ill, "bloat", "warning", "autovacuum")
	e.exec("ALTER TABLE pglease_leases RESET (autovacuum_enabled)")
	e.exec("TRUNCATE pglease_leases")

	e.exec("ALTER TABLE pglease_leases SET UNLOGGED")
	mustFind(t, e.doctor(t, e.dsn(), 2), "lease table", "error", "not LOGGED")
	e.exec("ALTER TABLE pglease_leases SET LOGGED")

	e.exec("CREATE SCHEMA elsewhere")
	e.exec("CREATE TABLE elsewhere.pglease_leases (LIKE pglease_leases)")
	mustFind(t, e.doctor(t, e.dsn(), 1), "lease table", "warning", "elsewhere")
	e.exec("DROP SCHEMA elsewhere CASCADE")

	name, as := e.role()
	mustFind(t, e.doctor(t, e.dsn(as), 2), "rights", "error", "SELECT, INSERT, UPDATE")
	if _, said := e.pglease(t, 78, "PGLEASE_DSN="+e.dsn(as), "list"); !strings.Contains(said, `"pglease schema print --grants"`) || strings.Contains(said, "grants.sql") {
		t.Errorf("without a right, list said %s", said)
	}
	e.exec("GRANT SELECT, INSERT, UPDATE ON pglease_leases TO " + name)
	mustFind(t, e.doctor(t, e.dsn(as), 1), "rights", "warning", "DELETE")
	e.exec("GRANT DELETE ON pglease_leases TO " + name)
	mustFind(t, e.doctor(t, e.dsn(as), 0), "rights", "notice", "hybrid")

	e.exec(`INSERT INTO pglease_leases VALUES ('silent', 'somebody', now() - interval '1 min', now() + interval '5 s', now() - interval '25 s', 5)`)
	mustFind(t, e.doctor(t, e.dsn(), 1), "heartbeat", "warning", `"silent" is held by somebody`)
}

// Limits of sessions, and a transaction that stays open.
func TestDoctorSessions(t *testing.T) {
	e := newDatabaseEnv(t).table()
	name, as := e.role()
	e.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON pglease_leases TO " + name)
	e.exec("ALTER ROLE " + name + " CONNECTION LIMIT 2")
	mustFind(t, e.doctor(t, e.dsn(as), 1), "sessions", "warning", "2 sessions of the role")
	e.exec("ALTER DATABASE " + e.database + " CONNECTION LIMIT 3")
	mustFind(t, e.doctor(t, e.dsn(), 1), "sessions", "warning", "3 sessions of this database")
	e.exec("ALTER DATABASE " + e.database + " CONNECTION LIMIT -1")

	tx, err := e.admin.BeginTx(testContext(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	pauseFor(20 * time.Millisecond)
	mustFind(t, e.doctor(t, e.dsn(), 1, "--transaction-age", "10ms"), "transactions", "warning", "open for")
}

// A server of its own: few sessions, and no care for its disk.
func TestDoctorServerSettings(t *testing.T) {
	p, err := newPlace(testContext(t), pgserver.WithKinds(pgserver.Local), pgserver.WithSetting("max_connections", "8"),
		pgserver.WithSetting("fsync", "off"), pgserver.WithSetting("full_page_writes", "off"))
	if err != nil {
		pgserver.NotRun(t, "local", err.Error())
	}
	t.Cleanup(p.stop)
	e := newEnvAt(t, p).table()
	ill := e.doctor(t, e.dsn(), 2)
	mustFind(t, ill, "durability", "error", "fsync")
	mustFind(t, ill, "durability", "warning", "full_page_writes")
	var all []*sql.Conn
	for range 3 { // and doctor's two, and that of e.admin
		c, err := e.open(t, pgxStdlib, e.dsn(pgserver.Param("application_name", e.app+"-other"))).Conn(testContext(t))
		if err != nil {
			break
		}
		all = append(all, c)
	}
	mustFind(t, e.doctor(t, e.dsn(), 2), "sessions", "warning", "of the server")
	for _, c := range all {
		_ = c.Close()
	}
}

// A standby, and the primary of one that is not synchronous.
func TestDoctorStandby(t *testing.T) {
	p := breaking.get(t, "standby")
	e := newEnvAt(t, p).table()
	standby := startStandby(t, p)
	mustFind(t, e.doctor(t, e.dsn(), 1), "durability", "warning", "none of them synchronous")
	dsn := standby.DSN(pgserver.Database(e.database), pgserver.Param("search_path", e.schema))
	mustFind(t, e.doctor(t, dsn, 2), "primary", "error", "standby")
}

// Poolers: one in session mode is seen, one in transaction mode is warned of, and everything but hybrid works through it.
func TestDoctorPoolerS1(t *testing.T) {
	e := newDatabaseEnv(t).table()
	for _, tt := range []struct {
		mode, severity string
		code, hybrid   int
	}{{"session", "notice", 0, 0}, {"transaction", "warning", 1, 78}} {
		t.Run(tt.mode, func(t *testing.T) {
			b := e.bouncer(t, tt.mode)
			dsn := b.DSN(e.database)
			mustFind(t, e.doctor(t, dsn, tt.code), "pooler", tt.severity, tt.mode+" mode")
			e.pglease(t, 3, "PGLEASE_DSN="+dsn, "run", "job", "--", "sh", "-c", "exit 3")
			e.pglease(t, tt.hybrid, "PGLEASE_DSN="+dsn, "run", "job", "--hybrid", "--", "true")
			printed, _ := e.pglease(t, 0, "PGLEASE_DSN="+dsn, "list", "--expired")
			if !strings.Contains(printed, "job") {
				t.Errorf("list printed %q", printed)
			}
		})
	}
}

// A server whose clock is an hour ahead: the function that tells the time is replaced, in a database of the test's own.
func TestDoctorClock(t *testing.T) {
	e := newDatabaseEnv(t).table()
	db := e.open(t, pgxStdlib, e.dsn(pgserver.Param("application_name", e.app+"-other"), pgserver.Param("options", "-c allow_system_table_mods=on")))
	if _, err := db.ExecContext(testContext(t), `CREATE OR REPLACE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz
		LANGUAGE sql VOLATILE AS 'SELECT pg_catalog.statement_timestamp() + interval ''1 hour'''`); err != nil {
		t.Fatal(err)
	}
	mustFind(t, e.doctor(t, e.dsn(), 1), "clock", "warning", " ahead of this machine's")
}

// A server that is too old, and one that is newer than this version knows: the function that tells the version is replaced in the
// same way.
func TestDoctorVersion(t *testing.T) {
	for version, tt := range map[string]struct {
		code            int
		severity, words string
	}{"120022": {2, "error", "too old"}, "990001": {0, "notice", "newer than"}} {
		e := newDatabaseEnv(t).table()
		db := e.open(t, pgxStdlib, e.dsn(pgserver.Param("application_name", e.app+"-other"), pgserver.Param("options", "-c allow_system_table_mods=on")))
		if _, err := db.ExecContext(testContext(t), `CREATE OR REPLACE FUNCTION pg_catalog.current_setting(text) RETURNS text
			LANGUAGE sql STABLE AS 'SELECT CASE $1 WHEN ''server_version_num'' THEN ''`+version+`'' ELSE pg_catalog.current_setting($1, false) END'`); err != nil {
			t.Fatal(err)
		}
		mustFind(t, e.doctor(t, e.dsn(), tt.code), "server", tt.severity, tt.words)
	}
}

// A database that cannot be reached is a finding too, with a code of its own.
func TestDoctorUnreachable(t *testing.T) {
	e := newEnv(t)
	mustFind(t, e.doctor(t, "postgres://u@127.0.0.1:1/d?sslmode=disable", 69), "connection", "error", "refused")
	mustFind(t, e.doctor(t, e.dsn(pgserver.User("nobody_here", password)), 69), "connection", "error", "28P01")
	printed, _ := e.pglease(t, 2, "doctor")
	if !strings.Contains(printed, "way out: run \"pglease schema apply\"") {
		t.Errorf("doctor printed %q", printed)
	}
}
