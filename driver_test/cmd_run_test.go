//go:build unix

package driver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// W3: the exit code is the command's own, or one that says what kept it from running.
func TestRunExitCodesW3(t *testing.T) {
	e := newEnv(t).table()
	other := e.otherClient(t)
	mustTry(t, other, "held")
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	noFormat, noInterpreter := filepath.Join(t.TempDir(), "noformat"), filepath.Join(t.TempDir(), "nointerpreter")
	for path, text := range map[string]string{noFormat: "text", noInterpreter: "#!/no/such/interpreter\n"} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		what string
		want int
		says string // in the one line on standard error; "" for none
		args []string
	}{
		{"success", 0, "", []string{"run", "free", "--", "true"}},
		{"the command's own code", 7, "", []string{"run", "free", "--", "sh", "-c", "exit 7"}},
		{"a signal", 137, "", []string{"run", "free", "--", "sh", "-c", "kill -KILL $$"}},
		{"held", 75, "held by", []string{"run", "held", "--", "false"}},
		{"held and skipped", 0, "", []string{"run", "held", "--skip", "--", "false"}},
		{"timed out", 124, "timed out waiting", []string{"run", "held", "--wait=100ms", "--", "false"}},
		{"not found", 127, "not found", []string{"run", "free", "--", "no-such-command-here"}},
		{"not to be run", 126, "permission denied", []string{"run", "free", "--", plain}},
		{"nothing that the kernel knows", 126, "exec format error", []string{"run", "free", "--", noFormat}},
		{"no interpreter", 127, "no such file", []string{"run", "free", "--", noInterpreter}},
		{"no database", 69, "refused", []string{"PGLEASE_DSN=postgres://u@127.0.0.1:1/d?sslmode=disable", "run", "free", "--", "false"}},
		{"no table", 78, "pglease schema apply", []string{"PGLEASE_DSN=" + e.place.DSN(), "run", "free", "--", "false"}},
		{"no command", 64, "run --help", []string{"run", "free", "--"}},
		{"no dashes", 64, "--", []string{"run", "free", "true"}},
		{"a misplaced duration", 64, "--wait=30s", []string{"run", "free", "--wait", "30s", "--", "true"}},
		{"no name", 64, "empty", []string{"run", "", "--", "true"}},
		{"contradiction", 64, "one of them", []string{"run", "free", "--skip", "--wait", "--", "true"}},
		{"short TTL", 64, "1s", []string{"run", "free", "--ttl", "10ms", "--", "true"}},
		{"long grace", 64, "at most 15s", []string{"run", "free", "--grace", "20s", "--", "true"}},
		{"unknown flag", 64, "--help", []string{"run", "free", "--ttll", "10s", "--", "true"}},
		{"unknown command", 64, "--help", []string{"runn", "free"}},
		{"a bad DSN", 64, "--dsn", []string{"--dsn", "mysql://u:geheim99@h/d", "list"}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			printed, said := e.pglease(t, tt.want, tt.args...)
			switch lines := strings.Count(said, "\n"); {
			case printed != "":
				t.Errorf("it printed %q", printed)
			case tt.says == "" && said != "":
				t.Errorf("it said %q", said)
			case tt.says != "" && (lines != 1 || !strings.Contains(said, tt.says)):
				t.Errorf("it said %q; want one line with %q", said, tt.says)
			}
		})
	}
	mustBeFree(t, other, "free")
}

// The command sees its lease in its environment, and its own standard files.
func TestRunEnvironment(t *testing.T) {
	e := newEnv(t).table()
	e.exec("INSERT INTO pglease_leases (task_name, owner_id, acquired_at, expires_at, heartbeat_at, token) VALUES ('job', 'me', now(), now(), now(), 41)")
	p := e.start(t, "PGLEASE_NAME=outer", "run", "job", "--owner", "me", "--ttl", "1m", "--", "sh", "-c",
		`echo "$PGLEASE_NAME $PGLEASE_OWNER $PGLEASE_TOKEN $PGLEASE_DEADLINE"; echo oops >&2; cat; pglease_dsn=${PGLEASE_DSN-unset}; echo $pglease_dsn`)
	p.mustEnd(t, 0)
	var name, owner, token, deadline, dsn string
	if _, err := fmt.Sscanf(p.printed(), "%s %s %s %s\n%s", &name, &owner, &token, &deadline, &dsn); err != nil {
		t.Fatalf("%v: %q", err, p.printed())
	}
	at, err := time.Parse(time.RFC3339Nano, deadline)
	if name != "job" || !strings.HasPrefix(owner, "me-") || token == "41" || dsn != "unset" || err != nil || !strings.HasSuffix(deadline, "Z") {
		t.Errorf("the command saw %q", p.printed())
	}
	if left := time.Until(at); left < 30*time.Second-patience || left > 50*time.Second { // 1m less 10s of grace and 1s
		t.Errorf("the deadline is in %v", left)
	}
	if p.said() != "oops\n" {
		t.Errorf("standard error: %q", p.said())
	}
}

// W1: a signal ends the wait, and the command is not started.
func TestRunSignalBeforeTheGrantW1(t *testing.T) {
	e := newEnv(t).table()
	other := e.otherClient(t)
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		for _, flags := range [][]string{{"--wait"}, {"--wait", "--hybrid"}, {"--loop"}} {
			t.Run(fmt.Sprint(sig, flags), func(t *testing.T) {
				l := mustAcquire(t, other, "job")
				p := e.start(t, append(append([]string{"run", "job"}, flags...), "--", "touch", "started")...)
				e.connected(t)
				p.signal(t, syscall.SIGUSR1) // which says nothing to one who waits
				p.signal(t, sig)
				p.mustEnd(t, 128+int(sig))
				if strings.Count(p.said(), "\n") != 1 || !strings.Contains(p.said(), "while no command ran") {
					t.Errorf("it said %q", p.said())
				}
				mustRelease(t, l)
				mustBeFree(t, other, "job")
				if _, err := os.Stat(filepath.Join(p.dir, "started")); err == nil {
					t.Error("the command was started all the same")
				}
				e.nothingLeft()
			})
		}
	}
	e.noProcess(t)
}

// W1: a signal at the moment of the grant. Either the command never starts, or it gets the signal; the lease is free at once.
func TestRunSignalAtTheGrantW1(t *testing.T) {
	e := newEnv(t).table()
	other := e.otherClient(t, pglease.WithHybrid())
	for n := range sooner(24, 8) {
		l := mustAcquire(t, other, "job")
		p := e.start(t, "run", "job", "--wait", "--hybrid", "--", "sh", "-c", "echo started; exec sleep 60")
		e.connected(t)
		eventually(t, "a waiter", func() bool { return e.waiting() > 0 })
		mustRelease(t, l)
		pauseFor(time.Duration(n%12) * time.Millisecond)
		p.signal(t, syscall.SIGTERM)
		p.mustEnd(t, 143)
		if starts := strings.Contains(p.printed(), "started"); starts && strings.Contains(p.said(), "while no command ran") {
			t.Errorf("the command started after the signal")
		}
		e.noProcess(t)
		mustBeFree(t, other, "job")
	}
}

// pauseFor gives a race its offset.
func pauseFor(d time.Duration) { <-time.After(d) }

// W1: the running command gets what pglease gets, and ends as it likes.
func TestRunSignalWhileRunningW1(t *testing.T) {
	e := newEnv(t).table()
	p := e.start(t, "run", "job", "--", "sh", "-c", `
		for s in HUP INT QUIT USR1 USR2 ALRM WINCH CONT; do trap "echo got $s" $s; done
		trap 'echo got TERM; exit 9' TERM
		echo ready
		while :; do sleep 0.01; done`)
	p.mustPrint(t, "ready\n")
	for _, s := range []struct {
		name string
		syscall.Signal
	}{
		{"HUP", syscall.SIGHUP}, {"INT", syscall.SIGINT}, {"QUIT", syscall.SIGQUIT}, {"USR1", syscall.SIGUSR1}, {"USR2", syscall.SIGUSR2},
		{"ALRM", syscall.SIGALRM}, {"WINCH", syscall.SIGWINCH}, {"CONT", syscall.SIGCONT}, {"TERM", syscall.SIGTERM},
	} {
		p.signal(t, s.Signal)
		p.mustPrint(t, "got "+s.name+"\n")
	}
	p.mustEnd(t, 9)
	mustBeFree(t, e.otherClient(t), "job")
}

// W1: the whole group gets the signal.
func TestRunSignalReachesGrandchildrenW1(t *testing.T) {
	e := newEnv(t).table()
	p := e.start(t, "run", "job", "--", "sh", "-c", `sh -c 'trap "echo grandchild; exit" TERM; echo ready; while :; do sleep 0.01; done' & wait`)
	p.mustPrint(t, "ready\n")
	p.signal(t, syscall.SIGTERM)
	p.mustEnd(t, 143)
	if !strings.Contains(p.printed(), "grandchild") {
		t.Error("the grandchild did not get the signal")
	}
	e.noProcess(t)
}

// A loop starts over when the command has ended, and ends by a signal.
func TestRunLoopO9(t *testing.T) {
	e := newEnv(t).table()
	other := e.otherClient(t)
	p := e.start(t, "run", "job", "--loop", "--ttl", "2s", "--", "sh", "-c", "echo run; [ -e failed ] && exec sleep 60; touch failed; exit 1")
	p.mustPrint(t, "run\nrun\n")
	forceRelease(t, other, "job")
	p.mustPrint(t, "run\nrun\nrun\n")
	p.signal(t, syscall.SIGTERM)
	p.mustEnd(t, 143)
	mustBeFree(t, other, "job")
	e.noProcess(t)
}

// W7: twenty machines whose crons strike at once, and one that comes late, run it once.
func TestRunCronW7(t *testing.T) {
	e := newEnv(t).table()
	shared := filepath.Join(t.TempDir(), "runs")
	run := func() *process {
		return e.start(t, "run", "job", "--skip", "--min-hold", "1m", "--", "sh", "-c", "echo ran >>"+shared)
	}
	var all []*process
	for range 20 {
		all = append(all, run())
	}
	for _, p := range all {
		p.mustEnd(t, 0)
	}
	run().mustEnd(t, 0)
	if got := contents(shared); got != "ran\n" {
		t.Errorf("it ran %d times", strings.Count(got, "\n"))
	}
}
