//go:build unix

package driver_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
)

// stubborn is a shell with a grandchild, both of which ignore TERM.
const stubborn = `trap "" TERM; sleep 300 & echo ready; sleep 300; wait`

// W2: the lease is forced away. TERM comes, then KILL, to the grandchild too.
func TestRunForcedAwayW2(t *testing.T) {
	e := newEnv(t).table()
	other := e.otherClient(t)
	p := e.start(t, "run", "job", "--ttl", "3s", "--grace", "300ms", "--", "sh", "-c", stubborn)
	p.mustPrint(t, "ready")
	forceRelease(t, other, "job")
	p.mustEnd(t, 79)
	e.noProcess(t)
	if !strings.Contains(p.said(), "lost") {
		t.Errorf("it said %q", p.said())
	}

	p = e.start(t, "run", "job", "--ttl", "3s", "--", "sh", "-c", `trap "echo asked; exit 0" TERM; echo ready; while :; do sleep 0.01; done`)
	p.mustPrint(t, "ready")
	forceRelease(t, other, "job")
	p.mustEnd(t, 79)
	p.mustPrint(t, "asked")
}

// W2: the database dies. TERM, grace and KILL have ended everybody of the group before the TTL has.
func TestRunDatabaseDiesW2(t *testing.T) {
	e := newEnvAt(t, breaking.get(t, "local")).table()
	p := e.start(t, "run", "job", "--ttl", "5s", "--grace", "1s", "--", "sh", "-c", stubborn)
	p.mustPrint(t, "ready")
	if err := e.place.Crash(); err != nil {
		t.Fatal(err)
	}
	crashed := time.Now()
	p.mustEnd(t, 79)
	e.noProcess(t)
	if d := time.Since(crashed); d > 5*time.Second {
		t.Errorf("the group ended %v after the crash; the TTL was 5s", d)
	}
	if n := strings.Count(p.said(), "heartbeat failed"); n > 2 || n == 2 && !strings.Contains(p.said(), `"failures":`) {
		t.Errorf("it told of %d heartbeats that failed: %s", n, p.said())
	}
	if err := e.place.Restart(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

// W2: the session of a hybrid lease is ended.
func TestRunSessionEndedW2(t *testing.T) {
	e := newEnv(t).table()
	p := e.start(t, "run", "job", "--hybrid", "--grace", "100ms", "--", "sh", "-c", stubborn)
	p.mustPrint(t, "ready")
	e.terminate(t)
	ended := time.Now()
	p.mustEnd(t, 79)
	e.noProcess(t)
	if d := time.Since(ended); d > 3*time.Second {
		t.Errorf("the group ended after %v", d)
	}
}

// What the command leaves running in its group is ended before the lease is free.
func TestRunEndsWhatIsLeftOfTheGroup(t *testing.T) {
	e := newEnv(t).table()
	p := e.start(t, "run", "job", "--grace", "200ms", "--", "sh", "-c", `(trap "" TERM; echo ready; exec sleep 300) & sleep 0.1; exit 3`)
	p.mustEnd(t, 3)
	e.noProcess(t)
	mustBeFree(t, e.otherClient(t), "job")
}

// W4: a process that has left the group and keeps the pipe open keeps pglease from nothing.
func TestRunPipeHeldOpenW4(t *testing.T) {
	setsid, err := exec.LookPath("setsid")
	if err != nil {
		pgserver.NotRun(t, "setsid", err.Error())
	}
	e := newEnv(t).table()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command(commandPath(t), "run", "job", "--", "sh", "-c", setsid+` sh -c 'echo $$ >pid; exec sleep 300' & while [ ! -s pid ]; do sleep 0.01; done`)
	cmd.Stdout = w
	p := e.startWith(t, cmd, "PGLEASE_DSN="+e.dsn())
	_ = w.Close()
	p.mustEnd(t, 0)
	pid := 0
	for _, c := range strings.TrimSpace(p.file("pid")) {
		pid = pid*10 + int(c-'0')
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the process that left the group: %v", err)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil { // nobody else has it
		t.Errorf("the pipe: %d, %v", n, err)
	}
}

// Nobody reads standard error, and it is full: the command is ended in time all the same.
func TestRunStandardErrorFull(t *testing.T) {
	e := newEnv(t).table()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	for err == nil {
		_, err = w.Write(make([]byte, 4096))
	}
	script := filepath.Join(t.TempDir(), "job")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"+stubborn+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `exec "$0" run job --ttl 3s --grace 300ms -- "$1" 2>&3`, commandPath(t), script)
	cmd.ExtraFiles = []*os.File{w}
	p := e.startWith(t, cmd, "PGLEASE_DSN="+e.dsn())
	_ = w.Close()
	p.mustPrint(t, "ready")
	other := e.otherClient(t)
	forceRelease(t, other, "job")
	within(t, "the end of the group", time.Now(), 3*time.Second, func() bool { return e.othersThan(p.cmd.Process.Pid) == 0 })
	_ = r.Close()
	p.mustEnd(t, 79)
}
