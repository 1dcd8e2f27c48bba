//go:build unix

package driver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

// What list, show, gc and schema print.
func TestCommandReads(t *testing.T) {
	e := newEnv(t).table()
	other := e.otherClient(t, pglease.WithOwner("somebody"), pglease.WithMetadata(map[string]string{"why": "a\ttest\x1b[2J"}))
	l := mustTry(t, other, "b/held")
	mustRelease(t, mustTry(t, other, "a/released"))

	printed, _ := e.pglease(t, 0, "list")
	if !strings.Contains(printed, "b/held") || !strings.Contains(printed, l.Owner()) || strings.Contains(printed, "a/released") {
		t.Errorf("list printed %q", printed)
	}
	printed, _ = e.pglease(t, 0, "list", "--expired", "--prefix", "a/")
	if strings.Contains(printed, "b/held") || !strings.Contains(printed, "a/released") {
		t.Errorf("list --expired --prefix printed %q", printed)
	}
	printed, _ = e.pglease(t, 0, "list", "--json", "--limit", "1")
	var rows []struct {
		Name     string
		Token    int64
		Held     bool
		Metadata map[string]string
	}
	if err := json.Unmarshal([]byte(printed), &rows); err != nil || len(rows) != 1 || rows[0].Token != l.Token() || !rows[0].Held || rows[0].Metadata["why"] == "" {
		t.Errorf("list --json printed %s (%v)", printed, err)
	}
	printed, _ = e.pglease(t, 0, "show", "b/held")
	for _, want := range []string{"held, for another", l.Owner(), fmt.Sprint(l.Token()), `a\ttest\x1b[2J`, "pid"} {
		if !strings.Contains(printed, want) {
			t.Errorf("show printed no %q: %q", want, printed)
		}
	}
	if strings.Contains(printed, "\x1b") {
		t.Error("what a holder wrote moves the terminal's cursor")
	}
	_, said := e.pglease(t, 1, "show", "never")
	if !strings.Contains(said, "no such lease") {
		t.Errorf("show of a name that never was said %q", said)
	}
	printed, _ = e.pglease(t, 0, "gc", "--older-than", "0s")
	if printed != "1 row deleted\n" {
		t.Errorf("gc printed %q", printed)
	}
	printed, _ = e.pglease(t, 0, "schema", "print")
	if want := contents("../schema/001_leases.sql"); printed != want {
		t.Error("schema print is not schema/001_leases.sql")
	}
	printed, _ = e.pglease(t, 0, "schema", "print", "--grants")
	if !strings.Contains(printed, "GRANT SELECT") {
		t.Errorf("schema print --grants printed %q", printed)
	}
	printed, _ = e.pglease(t, 0, "__complete", "show", "b")
	if !strings.HasPrefix(printed, "b/held\n") {
		t.Errorf("the completion of a name is %q", printed)
	}
	printed, _ = e.pglease(t, 0, "version")
	if !strings.HasPrefix(printed, "pglease ") {
		t.Errorf("version printed %q", printed)
	}
}

// Every command's help has an example.
func TestCommandHelp(t *testing.T) {
	e := newEnv(t)
	for _, words := range []string{"", "run", "list", "show", "wait", "release", "gc", "doctor", "schema", "schema print", "schema apply",
		"schema check", "version"} {
		printed, _ := e.pglease(t, 0, append(strings.Fields(words), "--help")...)
		if !strings.Contains(printed, "Examples:\n  pglease") {
			t.Errorf("pglease %s --help has no example", words)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if printed, _ := e.pglease(t, 0, "completion", shell); len(printed) < 100 {
			t.Errorf("completion %s printed %q", shell, printed)
		}
	}
}

// list --watch goes on, over an outage of its session too, until a signal.
func TestCommandListWatch(t *testing.T) {
	e := newEnv(t).table()
	p := e.start(t, "list", "--watch=100ms", "--json")
	p.mustPrint(t, "[]\n[]\n")
	mustTry(t, e.otherClient(t), "job")
	p.mustPrint(t, `"name":"job"`)
	p.signal(t, syscall.SIGINT)
	p.mustEnd(t, 0)
}

// wait ends when the lease is free, or its time is over, or a signal comes.
func TestCommandWait(t *testing.T) {
	e := newEnv(t).table()
	other := e.otherClient(t)
	e.pglease(t, 0, "wait", "never")
	l := mustTry(t, other, "job")
	_, said := e.pglease(t, 124, "wait", "job", "--timeout", "100ms")
	if !strings.Contains(said, "held by "+l.Owner()) {
		t.Errorf("it said %q", said)
	}
	p := e.start(t, "wait", "job")
	e.connected(t)
	mustRelease(t, l)
	p.mustEnd(t, 0)
	mustTry(t, other, "job")
	p = e.start(t, "wait", "job")
	e.connected(t)
	p.signal(t, syscall.SIGINT)
	p.mustEnd(t, 130)
}

// release --force says who held it, and ends no other term than the one it asked about.
func TestCommandRelease(t *testing.T) {
	e := newEnv(t).table()
	other := e.otherClient(t, pglease.WithOwner("somebody"))
	l := mustTry(t, other, "job")
	for _, args := range [][]string{{"release", "job"}, {"release", "job", "--force"}} { // without a terminal
		if _, said := e.pglease(t, 64, args...); !strings.Contains(said, "add --") {
			t.Errorf("%v said %q", args, said)
		}
	}
	_, said := e.pglease(t, 75, "release", "job", "--force", "--yes", "--token", "7")
	if !strings.Contains(said, "nothing was changed") || l.Renew(testContext(t)) != nil {
		t.Errorf("it said %q, and the lease is %v", said, l.Err())
	}
	printed, said := e.pglease(t, 0, "release", "job", "--force", "--yes", "--token", fmt.Sprint(l.Token()))
	if !strings.Contains(printed, l.Owner()) || !strings.Contains(printed, fmt.Sprint(l.Token())) || said != "" {
		t.Errorf("it printed %q and said %q", printed, said)
	}
	if err := l.Renew(testContext(t)); err == nil {
		t.Error("the lease is still held")
	}
	printed, _ = e.pglease(t, 0, "release", "job", "--force", "--yes")
	if !strings.Contains(printed, "is free") {
		t.Errorf("of a free lease it printed %q", printed)
	}
	e.pglease(t, 1, "release", "never", "--force", "--yes")
}

// onTerminal runs the command on a terminal of its own, whose input is what comes from the writer.
func (e *env) onTerminal(t *testing.T, args ...string) (p *process, keyboard *os.File) {
	t.Helper()
	line := "exec" // lest a shell in between die of the Ctrl-C that the command survives
	for _, word := range append([]string{commandPath(t)}, args...) {
		line += " '" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return e.lineOnTerminal(t, line)
}

// lineOnTerminal runs a line of shell so.
func (e *env) lineOnTerminal(t *testing.T, line string) (p *process, keyboard *os.File) {
	t.Helper()
	script, err := exec.LookPath("script")
	if err != nil {
		pgserver.NotRun(t, "script", err.Error())
	}
	cmd := exec.Command(script, "--quiet", "--return", "--flush", "--command", line, "/dev/null")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	t.Cleanup(func() { _ = w.Close() })
	cmd.Stdin = r
	return e.startWith(t, cmd, "PGLEASE_DSN="+e.dsn()), w
}

// On a terminal: release asks, refuses another term than it asked about, and does what it was told.
func TestCommandReleaseAsks(t *testing.T) {
	e := newEnv(t).table()
	other := e.otherClient(t, pglease.WithOwner("somebody"))
	l := mustTry(t, other, "job")
	for _, tt := range []struct {
		answer string
		code   int
		says   string
	}{{"no", 1, "nothing was changed"}, {"yes", 75, "that term"}, {"yes", 0, "is free; it was held by"}} {
		p, keyboard := e.onTerminal(t, "release", "job", "--force")
		p.mustPrint(t, "(yes/no)")
		if !strings.Contains(p.printed(), l.Owner()) {
			t.Errorf("it does not say who holds it: %q", p.printed())
		}
		if tt.code == 75 { // another term begins while it asks
			mustRelease(t, l)
			l = mustTry(t, other, "job")
		}
		fmt.Fprintln(keyboard, tt.answer)
		p.mustEnd(t, tt.code)
		if !strings.Contains(p.printed(), tt.says) {
			t.Errorf("it printed %q, not %q", p.printed(), tt.says)
		}
	}
}

// On a terminal: a line says who is waited for; the command gets the terminal when it reads from it; Ctrl-C reaches it; Ctrl-Z does
// not stop it.
func TestRunOnTerminal(t *testing.T) {
	e := newEnv(t).table()
	other := e.otherClient(t, pglease.WithOwner("somebody"))
	l := mustTry(t, other, "job")
	script := filepath.Join(t.TempDir(), "job")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntrap 'echo interrupted; exit 6' INT\necho started\nread line\necho \"read $line\"\nwhile :; do sleep 0.01; done\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	// The shell around it reads from the terminal afterwards: it must have it back.
	p, keyboard := e.lineOnTerminal(t, commandPath(t)+" run job --wait -- "+script+"; code=$?; read line; echo \"then $line\"; exit $code")
	p.mustPrint(t, "held by "+l.Owner())
	p.mustPrint(t, "at most unless it is renewed")
	mustRelease(t, l)
	p.mustPrint(t, "started")
	fmt.Fprintln(keyboard, "something")
	p.mustPrint(t, "read something")
	fmt.Fprint(keyboard, "\x1a") // Ctrl-Z
	p.mustPrint(t, "not suspended")
	fmt.Fprint(keyboard, "\x03") // Ctrl-C
	p.mustPrint(t, "interrupted")
	fmt.Fprintln(keyboard, "more")
	p.mustPrint(t, "then more")
	p.mustEnd(t, 6)
	e.noProcess(t)
}

// X3: the password is in no output, in no list of processes, and in the command's environment only if that was asked for.
func TestCommandHidesThePasswordX3(t *testing.T) {
	e := newEnv(t).table()
	name, _ := e.role()
	e.exec(fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", name, password))
	e.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON pglease_leases TO " + name)
	good := e.dsn(pgserver.User(name, password))
	bad := e.dsn(pgserver.User("not_here", password))
	hidden := func(what, text string) {
		t.Helper()
		for _, part := range []string{password[:6], password[6:12], password[12:], escaped} {
			if strings.Contains(text, part) {
				t.Errorf("%s shows the password: %s", what, text)
				return
			}
		}
	}
	p := e.start(t, "PGLEASE_DSN="+good, "DATABASE_URL="+bad, "PGPASSWORD="+password, "run", "job", "-vv", "--", "sh", "-c",
		`env; echo ready; while [ ! -e go ]; do sleep 0.01; done`)
	p.mustPrint(t, "ready")
	hidden("the environment of the command", p.printed())
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		if b, err := os.ReadFile(path); err == nil {
			hidden("the list of processes", string(b))
		}
	}
	if err := os.WriteFile(filepath.Join(p.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.mustEnd(t, 0)
	hidden("the log", p.said())

	p = e.start(t, "PGLEASE_DSN="+good, "run", "job", "--keep-env", "--", "env")
	p.mustEnd(t, 0)
	if !bytes.Contains([]byte(p.printed()), []byte("PGLEASE_DSN="+good)) {
		t.Error("--keep-env has not kept it")
	}
	for _, dsn := range []string{
		bad,
		"postgres://u:" + password + "@127.0.0.1:1/d",          // not escaped
		"postgres://u:12/" + password + "@127.0.0.1:1/d",       // a slash in it
		"postgres://u:" + escaped + "@127.0.0.1:1/d%zz",        // malformed elsewhere
		"postgres://u:" + escaped + "@127.0.0.1:port/d",        //
		"postgres://u:" + escaped + "@127.0.0.1:1/d?sslmode=x", //
		"host=127.0.0.1 port=1 user=u password='" + password,
		"host=127.0.0.1 port=1 user=u password=" + password + " sslmode=wrong",
		"host=127.0.0.1 password = '" + password + "' port=no",
		"password=" + password + " host=no-such-host.invalid",
		password,
		"mysql://u:" + escaped + "@h/d",
	} {
		for _, args := range [][]string{{"list"}, {"doctor"}, {"run", "job", "-vv", "--", "true"}} {
			p := e.start(t, append([]string{"PGLEASE_DSN=" + dsn, "PGCONNECT_TIMEOUT=2"}, args...)...)
			if code := p.wait(t); code != 64 && code != 69 {
				t.Errorf("%v with %s: exit code %d", args, dsn, code)
			}
			hidden(strings.Join(args, " "), p.printed()+p.said())
		}
	}
	_, said := e.pglease(t, 0, "--dsn", good, "list")
	if !strings.Contains(said, "list of processes") {
		t.Errorf("a password in --dsn: it said %q", said)
	}
	hidden("the warning", said)
}

// The database is found as psql finds it: by a URL, keywords, PG* variables, a service file and a password file.
func TestCommandFindsTheDatabase(t *testing.T) {
	e := newEnv(t).table()
	name, _ := e.role()
	e.exec(fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", name, password))
	e.exec("GRANT SELECT ON pglease_leases TO " + name)
	host, port := e.place.address(t)
	dir := t.TempDir()
	write := func(file, text string) string {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	passfile := write("pgpass", fmt.Sprintf("*:*:*:%s:%s\n", name, password))
	service := write("services", fmt.Sprintf("[here]\nhost=%s\nport=%s\ndbname=%s\nuser=%s\n", host, port, e.database, name))
	options := "PGOPTIONS=-c search_path=" + e.schema
	for what, args := range map[string][]string{
		"--dsn":        {"DATABASE_URL=postgres://nobody@127.0.0.1:1/d", "--dsn", e.dsn(), "list"},
		"PGLEASE_DSN":  {"DATABASE_URL=postgres://nobody@127.0.0.1:1/d", "PGLEASE_DSN=" + e.dsn(), "list"},
		"DATABASE_URL": {"PGLEASE_DSN=", "DATABASE_URL=" + e.dsn(), "list"},
		"keywords": {"PGLEASE_DSN=" + fmt.Sprintf("host=%s port=%s user=%s dbname=%s password='%s'", host, port, name, e.database, password),
			options, "list"},
		"variables": {"PGLEASE_DSN=", "PGHOST=" + host, "PGPORT=" + port, "PGUSER=" + name, "PGDATABASE=" + e.database, "PGPASSWORD=" + password, options, "list"},
		"a service": {"PGLEASE_DSN=", "PGSERVICEFILE=" + service, "PGSERVICE=here", "PGPASSFILE=" + passfile, options, "list"},
	} {
		t.Run(what, func(t *testing.T) { e.pglease(t, 0, append([]string{"PGSSLMODE=prefer"}, args...)...) })
	}
}

// address is where the server listens.
func (p *place) address(t *testing.T) (host, port string) {
	t.Helper()
	if err := p.admin.QueryRowContext(testContext(t), "SELECT 1").Scan(new(int)); err != nil {
		t.Fatal(err)
	}
	host, port, ok := strings.Cut(strings.Split(strings.SplitN(p.DSN(), "@", 2)[1], "/")[0], ":")
	if !ok {
		pgserver.NotRun(t, "port", "the DSN names no port")
	}
	return host, port
}

// Logs are JSON when nobody watches, and quiet unless asked for.
func TestCommandLogs(t *testing.T) {
	e := newEnv(t).table()
	_, said := e.pglease(t, 0, "run", "job", "--", "true")
	if said != "" {
		t.Errorf("quiet: %q", said)
	}
	_, said = e.pglease(t, 0, "run", "job", "-v", "--", "true")
	for _, line := range strings.Split(strings.TrimSpace(said), "\n") {
		var entry struct {
			Time time.Time
			Msg  string
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Msg == "" || entry.Time.IsZero() {
			t.Errorf("%v: %q", err, line)
		}
	}
	_, said = e.pglease(t, 0, "run", "job", "-v", "--log-format", "text", "--", "true")
	if !strings.HasPrefix(said, "pglease: running (name job, ") {
		t.Errorf("text: %q", said)
	}
	e.pglease(t, 64, "list", "--log-format", "xml")
}

// On a terminal list --watch draws in place.
func TestCommandListWatchOnTerminal(t *testing.T) {
	e := newEnv(t).table()
	p, keyboard := e.onTerminal(t, "list", "--watch=100ms")
	p.mustPrint(t, "\x1b[HNAME")
	p.mustPrint(t, "\x1b[J\x1b[HNAME")
	mustTry(t, e.otherClient(t), "job")
	p.mustPrint(t, "1 lease at")
	fmt.Fprint(keyboard, "\x03")
	p.mustEnd(t, 0)
}

// A signal that was ignored from the start, as nohup has it, stays ignored.
func TestRunUnderNohup(t *testing.T) {
	e := newEnv(t).table()
	p := e.startWith(t, exec.Command("sh", "-c", `trap "" HUP; exec "$0" run job -- sh -c 'echo ready; while [ ! -e go ]; do sleep 0.01; done; exit 5'`, commandPath(t)),
		"PGLEASE_DSN="+e.dsn())
	p.mustPrint(t, "ready")
	p.signal(t, syscall.SIGHUP)
	pauseFor(50 * time.Millisecond)
	if err := os.WriteFile(filepath.Join(p.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.mustEnd(t, 5)
}

// Somebody reads standard error no longer: a log entry that cannot be written ends nothing.
func TestRunStandardErrorClosed(t *testing.T) {
	e := newEnv(t).table()
	p := e.startWith(t, exec.Command("sh", "-c", `"$0" run job -vv -- sh -c 'sleep 0.3; echo done' 2>&1 >out2 | true; cat out2`, commandPath(t)),
		"PGLEASE_DSN="+e.dsn())
	p.mustEnd(t, 0)
	if p.printed() != "done\n" {
		t.Errorf("the command printed %q", p.printed())
	}
}
