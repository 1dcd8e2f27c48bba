package pgserver

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

const testLimit = 90 * time.Second // for everything that one test waits for

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	t.Cleanup(cancel)
	return ctx
}

// startLocalServer starts a server that the test may break.
func startLocalServer(t *testing.T, opts ...Option) *Server {
	t.Helper()
	opts = append([]Option{WithKinds(Local), WithLog(t.Output())}, opts...)
	s, err := Start(testContext(t), opts...)
	if errors.Is(err, ErrNotHere) && findable() != nil {
		NotRun(t, "local", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	return s
}

func findable() error {
	_, err := findBinaries(newConfig(nil))
	return err
}

func mustExec(t *testing.T, dsn, statement string) {
	t.Helper()
	if err := execute(testContext(t), dsn, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func mustQuery[T comparable](t *testing.T, dsn, query string, want T) {
	t.Helper()
	got, err := queryValue[T](testContext(t), dsn, query)
	if err != nil || got != want {
		t.Fatalf("%s: %v, %v; want %v", query, got, err, want)
	}
}

func TestLocalServerIsDurableAndHasWhatTestsRelyOn(t *testing.T) {
	s := startLocalServer(t, WithSetting("application_name", `it's \ "so"`))
	if s.Kind() != Local {
		t.Errorf("Kind() = %v", s.Kind())
	}
	major, err := s.Version(testContext(t))
	if err != nil || major < 10 || major > 99 {
		t.Errorf("Version() = %d, %v", major, err)
	}
	for name, want := range map[string]string{
		"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on",
		"max_connections": "200", "server_encoding": "UTF8", "listen_addresses": "127.0.0.1",
	} {
		mustQuery(t, s.DSN(), "SELECT current_setting('"+name+"')", want)
	}
	mustQuery(t, s.DSN(), "SELECT reset_val FROM pg_settings WHERE name = 'application_name'", `it's \ "so"`)
	mustQuery(t, s.DSN(Param("search_path", "a,b")), "SELECT current_setting('search_path')", "a,b")
	mustQuery(t, s.DSN(Param("options", "-c work_mem=123kB -c lock_timeout=7s")),
		"SELECT current_setting('work_mem') || current_setting('lock_timeout')", "123kB7s")
}

func TestServerRefusesAWrongPassword(t *testing.T) {
	s := startLocalServer(t)
	mustExec(t, s.DSN(), "CREATE ROLE guest LOGIN PASSWORD 'a:b@c/d'")
	mustQuery(t, s.DSN(User("guest", "a:b@c/d")), "SELECT current_user::text", "guest")
	for _, dsn := range []string{s.DSN(User(superuser, "x")), s.DSN(User(superuser, "x"), Unix())} {
		if err := execute(testContext(t), dsn, "SELECT 1"); err == nil {
			t.Errorf("connected with a wrong password")
		}
	}
}

func TestUnixDSNGoesThroughTheSocket(t *testing.T) {
	s := startLocalServer(t)
	if s.local.socket == "" {
		NotRun(t, "unix-socket", "no Unix sockets on this system")
	}
	if n := len(s.local.socket + "/.s.PGSQL.12345"); n >= socketPathLimit {
		t.Errorf("the socket's path has %d bytes", n)
	}
	mustQuery(t, s.DSN(Unix()), "SELECT inet_server_addr() IS NULL", true)
	mustQuery(t, s.DSN(), "SELECT inet_server_addr() IS NULL", false)
}

func TestTLSDSNChecksTheCertificate(t *testing.T) {
	s := startLocalServer(t, WithTLS())
	const encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
	mustQuery(t, s.DSN(TLS()), encrypted, true)
	mustQuery(t, s.DSN(), encrypted, false)
	mustQuery(t, strings.Replace(s.DSN(TLS()), "127.0.0.1", "localhost", 1), encrypted, true)

	stranger := startLocalServer(t, WithTLS())
	if err := execute(testContext(t), s.DSN(TLS(), Param("sslrootcert", stranger.at.ca)), "SELECT 1"); err == nil {
		t.Error("connected with another server's CA")
	}
}

func TestDatabasesAreEmptyAndDroppedWithTheirConnections(t *testing.T) {
	s := startLocalServer(t)
	ctx := testContext(t)
	name, err := s.CreateDatabase(ctx)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", s.DSN(Database(name)))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var tables int
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").Scan(&tables)
	if err != nil || tables != 0 {
		t.Errorf("%d tables, %v", tables, err)
	}
	for range 2 { // the second time there is nothing to drop
		if err := s.DropDatabase(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := execute(ctx, s.DSN(Database(name)), "SELECT 1"); err == nil {
		t.Error("the database is still there")
	}
}

func TestServerOfDSNIsOnlyLent(t *testing.T) {
	owner := startLocalServer(t)
	t.Setenv("PGLEASE_TEST_DSN", owner.DSN(Param("application_name", "lent")))
	ctx := testContext(t)
	var log strings.Builder
	s, err := Start(ctx, WithLog(&log))
	if err != nil {
		t.Fatal(err)
	}
	if s.Kind() != DSN || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "took DSN") {
		t.Errorf("took %v, said %q", s.Kind(), log.String())
	}
	mustQuery(t, s.DSN(), "SELECT current_setting('application_name')", "lent")
	if err := s.Crash(); !errors.Is(err, ErrNotHere) {
		t.Errorf("Crash: %v", err)
	}
	if _, err := s.CreateDatabase(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	mustQuery(t, owner.DSN(), "SELECT count(*)::int FROM pg_database WHERE datname LIKE 'pgl_%'", 0)

	if _, err := Start(ctx, WithKinds(DSN), WithSetting("work_mem", "1MB"), WithLog(io.Discard)); err == nil {
		t.Error("a server that can't be given a setting was taken")
	}
}

func TestStartSaysInTwoLinesWhatToInstall(t *testing.T) {
	t.Setenv("PGLEASE_TEST_DSN", "postgres://u:secret@127.0.0.1:1/x%zz")
	t.Setenv("PGLEASE_TEST_BIN", t.TempDir())
	t.Setenv("DOCKER_HOST", "unix://"+t.TempDir()+"/none.sock")
	begin := time.Now()
	_, err := Start(testContext(t), WithKinds(DSN, Docker, Local), WithLog(io.Discard))
	if !errors.Is(err, ErrNotHere) {
		t.Fatal(err)
	}
	if strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), "install") {
		t.Errorf("not two lines that say what to install: %v", err)
	}
	for _, want := range []string{"DSN: ", "Docker: ", "Local: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no reason for %s in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("shows the password: %v", err)
	}
	if d := time.Since(begin); d > 2*time.Second {
		t.Errorf("took %v to see that there is nothing", d)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	before := tempEntries(t)
	_, err := Start(ctx, WithKinds(Local), WithLog(io.Discard))
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if after := tempEntries(t); after > before {
		t.Errorf("%d directories more than before", after-before)
	}
}

func tempEntries(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "pgserver-") {
			n++
		}
	}
	return n
}

// With other binaries than those asked for, a version would go unnoticed.
func TestBinariesThatAreAskedForLeaveDockerOut(t *testing.T) {
	t.Setenv("PGLEASE_TEST_DSN", "")
	t.Setenv("PGLEASE_TEST_BIN", t.TempDir())
	s, err := Start(testContext(t), WithLog(io.Discard))
	if err == nil {
		t.Fatalf("started %v, %v", s.Kind(), s.Stop())
	}
	if text := err.Error(); strings.Contains(text, "Docker: ") || strings.Contains(text, "Embedded: ") || !strings.Contains(text, "Local: ") {
		t.Errorf("tried something else: %v", err)
	}
}
