package driver_test

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
)

// W5: pglease is killed. Nobody of the command's group runs on, and neither does the guardian.
func TestRunKilledW5(t *testing.T) {
	e := newEnv(t).table()
	p := e.start(t, "run", "job", "--", "sh", "-c", stubborn)
	p.mustPrint(t, "ready")
	guardian := guardianOf(p.cmd.Process.Pid)
	if guardian == 0 {
		t.Fatal("there is no guardian")
	}
	killed := time.Now()
	p.signal(t, syscall.SIGKILL)
	within(t, "the end of the group", killed, 2*time.Second, func() bool { return len(e.processes()) == 0 })
	eventually(t, "the end of the guardian", func() bool { return !exists(guardian) })
	await(t, "the end of pglease", p.ended)
}

// W5, C5: pglease is stopped for longer than the lease lasts. The guardian ends the group before the TTL has ended, and pglease says
// on waking that the lease is lost.
func TestRunStoppedW5(t *testing.T) {
	e := newEnv(t).table()
	p := e.start(t, "run", "job", "--ttl", "5s", "--grace", "500ms", "--", "sh", "-c", stubborn)
	p.mustPrint(t, "ready")
	group := slices.DeleteFunc(e.processes(), func(pid int) bool { return pid == p.cmd.Process.Pid })
	p.signal(t, syscall.SIGSTOP)
	stopped := time.Now()
	within(t, "the end of the group", stopped, 5*time.Second, func() bool { return !slices.ContainsFunc(group, e.runs) })
	p.signal(t, syscall.SIGCONT)
	p.mustEnd(t, 79)
	if said := p.said(); !strings.Contains(said, "pglease was stopped for longer than its lease lasts; the command was ended in time") || strings.Contains(said, "guardian") {
		t.Errorf("it said %s", said)
	}
}

// W5: pglease is killed, or stopped for good, in the midst of the command's start. Nobody of the group runs on: the guardian knew of it
// before the command's program was executed.
func TestRunKilledAtTheStartW5(t *testing.T) {
	e := newEnv(t).table()
	for i := range 16 {
		p := e.start(t, "run", "job"+strconv.Itoa(i), "--ttl", "1s", "--grace", "200ms", "--", "sh", "-c", stubborn)
		// The guardian is the first process of the start; then come the gate and, in the same process, the command.
		eventually(t, "a guardian", func() bool { return guardianOf(p.cmd.Process.Pid) != 0 })
		pauseFor(time.Duration(i/2) * time.Millisecond) // the moment, not a wait
		if i%2 == 0 {
			p.signal(t, syscall.SIGKILL)
			within(t, "the end of the group", time.Now(), 2*time.Second, func() bool { return len(e.processes()) == 0 })
			continue
		}
		p.signal(t, syscall.SIGSTOP)
		within(t, "the end of the group", time.Now(), 3*time.Second, func() bool { return e.othersThan(p.cmd.Process.Pid) == 0 && guardianOf(p.cmd.Process.Pid) == 0 })
		p.signal(t, syscall.SIGKILL)
		await(t, "the end of pglease", p.ended)
		e.noProcess(t)
	}
}

// The command inherits what a shell has opened for it, and nothing of pglease's own.
func TestRunInheritsFiles(t *testing.T) {
	e := newEnv(t).table()
	p := e.startWith(t, exec.Command("sh", "-c", `exec 3>three 4>four 5>five; ls /proc/$$/fd >before; exec "$0" run job -- sh -c 'ls /proc/$$/fd >after; echo word >&4'`, commandPath(t)),
		"PGLEASE_DSN="+e.dsn())
	p.mustEnd(t, 0)
	if before, after := p.file("before"), p.file("after"); before != after || before == "" {
		t.Errorf("the files of the shell: %q; of the command: %q", before, after)
	}
	if got := p.file("four"); got != "word\n" {
		t.Errorf("the file has %q", got)
	}
}

// The guardian dies: the command runs on, and pglease can be killed all the same.
func TestRunGuardianDiesW5(t *testing.T) {
	e := newEnv(t).table()
	p := e.start(t, "run", "job", "--ttl", "2s", "--", "sh", "-c", "echo ready; while [ ! -e go ]; do sleep 0.01; done; exit 5")
	p.mustPrint(t, "ready")
	if err := syscall.Kill(guardianOf(p.cmd.Process.Pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a warning", func() bool { return strings.Contains(p.said(), "guardian") })
	if out, err := exec.Command("touch", p.dir+"/go").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.mustEnd(t, 5)
}

// W6: as PID 1 of a container it reaps what its command leaves behind.
func TestRunAsPID1W6(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err == nil {
		err = exec.Command(unshare, "--pid", "--fork", "--mount-proc", "true").Run()
	}
	if err != nil {
		pgserver.NotRun(t, "unshare", "a PID namespace: "+err.Error())
	}
	e := newEnv(t).table()
	p := e.startWith(t, exec.Command(unshare, "--pid", "--fork", "--mount-proc", commandPath(t), "run", "job", "--", "sh", "-c", `
		for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c 'exit 1' & setsid sh -c 'exit 2' &) ; done
		for i in 1 2 3 4 5 6 7 8 9 10; do
			sleep 0.1
			zombies=$(cat /proc/[0-9]*/status 2>/dev/null | grep -c 'State:.Z')
			[ "$zombies" = 0 ] && break
		done
		echo "ppid $PPID, $zombies zombies"
		exit 4`), "PGLEASE_DSN="+e.dsn())
	p.mustEnd(t, 4)
	if p.printed() != "ppid 1, 0 zombies\n" {
		t.Errorf("it printed %q", p.printed())
	}
}
