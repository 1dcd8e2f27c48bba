//go:build unix

package driver_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

// The command, built by the first test that runs it. TestMain removes it.
var command struct {
	once sync.Once
	path string
	err  error
}

func commandPath(t *testing.T) string {
	t.Helper()
	command.once.Do(func() {
		dir, err := os.MkdirTemp("", "pglease-cmd-")
		if err != nil {
			command.err = err
			return
		}
		cleanups = append(cleanups, func() { _ = os.RemoveAll(dir) })
		command.path = filepath.Join(dir, "pglease")
		build := exec.Command("go", "build", "-o", command.path, ".")
		build.Dir = "../cmd/pglease"
		if out, err := build.CombinedOutput(); err != nil {
			command.err = fmt.Errorf("building the command: %w\n%s", err, out)
		}
	})
	if command.err != nil {
		t.Fatal(command.err)
	}
	return command.path
}

// mark is the variable by which the processes of a test are known: those of the command, of what it runs, and of what that leaves.
const mark = "PGLEASE_TEST_MARK"

// A process is a run of the command. Its output goes to files, as in cron: nobody waits for the end of a pipe.
type process struct {
	cmd         *exec.Cmd
	dir         string
	out, errors string // paths
	ended       chan struct{}
}

// start starts the command with the env's database in PGLEASE_DSN. Further variables come as NAME=VALUE before the arguments.
func (e *env) start(t *testing.T, args ...string) *process {
	t.Helper()
	variables := []string{"PGLEASE_DSN=" + e.dsn()}
	for len(args) > 0 && strings.Contains(args[0], "=") && !strings.HasPrefix(args[0], "-") {
		variables, args = append(variables, args[0]), args[1:]
	}
	return e.startWith(t, exec.Command(commandPath(t), args...), variables...)
}

func (e *env) startWith(t *testing.T, cmd *exec.Cmd, variables ...string) *process {
	t.Helper()
	dir := t.TempDir()
	p := &process{cmd: cmd, dir: dir, out: filepath.Join(dir, "out"), errors: filepath.Join(dir, "err"), ended: make(chan struct{})}
	out, err := os.Create(p.out)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	errs, err := os.Create(p.errors)
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	if cmd.Stdout == nil {
		cmd.Stdout = out
	}
	cmd.Stderr = errs
	cmd.Dir = dir
	cmd.Env = append(withoutDatabase(os.Environ()), mark+"="+e.app)
	cmd.Env = append(cmd.Env, variables...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		select {
		case <-p.ended:
		default:
			_ = cmd.Process.Kill()
			<-p.ended
		}
	})
	return p
}

// withoutDatabase is an environment that names no database.
func withoutDatabase(env []string) (left []string) {
	for _, pair := range env {
		if !strings.HasPrefix(pair, "PG") && !strings.HasPrefix(pair, "DATABASE_URL=") {
			left = append(left, pair)
		}
	}
	return left
}

// wait returns the exit code; 128+n if signal n has ended the command itself.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	await(t, "the end of pglease "+strings.Join(p.cmd.Args[1:], " "), p.ended)
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		t.Errorf("pglease was itself ended by %v", status.Signal())
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// mustEnd checks the exit code.
func (p *process) mustEnd(t *testing.T, want int) {
	t.Helper()
	if code := p.wait(t); code != want {
		t.Errorf("pglease %s: exit code %d, want %d; it said %s", strings.Join(p.cmd.Args[1:], " "), code, want, p.said())
	}
}

func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func contents(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

func (p *process) printed() string { return contents(p.out) }
func (p *process) said() string    { return contents(p.errors) }

// file returns what the command has written to a file in its directory.
func (p *process) file(name string) string { return contents(filepath.Join(p.dir, name)) }

// mustPrint waits until the standard output contains a text.
func (p *process) mustPrint(t *testing.T, text string) {
	t.Helper()
	if !poll(func() bool { return strings.Contains(p.printed(), text) }) {
		t.Fatalf("pglease %s has not printed %q but %q; it said %s", strings.Join(p.cmd.Args[1:], " "), text, p.printed(), p.said())
	}
}

// pglease runs the command to its end and returns what it printed.
func (e *env) pglease(t *testing.T, want int, args ...string) (printed, said string) {
	t.Helper()
	p := e.start(t, args...)
	p.mustEnd(t, want)
	return p.printed(), p.said()
}

// connected waits until a process of the test has a session: it has begun to wait, or to ask.
func (e *env) connected(t *testing.T) {
	t.Helper()
	eventually(t, "a session of the command", func() bool {
		return value[int](e, "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = $1", e.app) > 0
	})
}

// otherClient returns a client whose sessions are not counted as the command's.
func (e *env) otherClient(t *testing.T, opts ...pglease.Option) *pglease.Client {
	t.Helper()
	return client(t, e.open(t, pgxStdlib, e.dsn(pgserver.Param("application_name", e.app+"-other"))), opts...)
}

// mustBeFree checks that a lease can be had now.
func mustBeFree(t *testing.T, c *pglease.Client, name string) {
	t.Helper()
	mustRelease(t, mustTry(t, c, name))
}

func forceRelease(t *testing.T, c *pglease.Client, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.ForceRelease(ctx, name); err != nil {
		t.Fatal(err)
	}
}

// within waits for a condition that must come true before a limit that is part of the promise.
func within(t *testing.T, what string, since time.Time, limit time.Duration, yes func() bool) {
	t.Helper()
	eventually(t, what, yes)
	if d := time.Since(since); d > limit {
		t.Errorf("%s: after %v, and %v was promised", what, d, limit)
	}
}
