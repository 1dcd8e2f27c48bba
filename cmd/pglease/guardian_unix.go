//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// guardianName is the name under which this program is its own guardian, as ps shows it.
const guardianName = "pglease-guardian"

// A guardian is a process that kills the command's group when this one has died, or has been stopped for longer than the lease
// lasts (W5, C5). It holds the reading end of a pipe whose writing end ends with this process, in whatever way. It
// gets lines: "watch PGID", "kill-after NANOSECONDS WALL-CLOCK", "dismissed".
type guardian struct {
	pipe  *os.File
	ended chan struct{}
	pid   int

	dismissed atomic.Bool
	timeUp    atomic.Bool // it has killed the group, since nobody told it that there is more time; set before ended is closed
}

// guardianTimeUp is the exit code of a guardian that has killed the group because the time was over.
const guardianTimeUp = 3

// startGuardian starts one, and calls died if it ends without having been dismissed, and without having done its work.
func startGuardian(died func()) (*guardian, error) {
	exe := selfExe
	if _, err := os.Stat(exe); err != nil {
		if exe, err = os.Executable(); err != nil {
			if exe, err = exec.LookPath(os.Args[0]); err != nil {
				return nil, err
			}
		}
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = write.Close()
		return nil, err
	}
	defer null.Close()
	g := &guardian{pipe: write, ended: make(chan struct{})}
	// In a session of its own, so that what is sent to our group or comes from the terminal does not reach it; with none of
	// our files and none of our environment, where the password is.
	g.pid, err = children.start(exe, []string{guardianName}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{null, null, null, read}, Sys: &syscall.SysProcAttr{Setsid: true},
	}, func(s syscall.WaitStatus) {
		if !s.Stopped() {
			g.timeUp.Store(s.Exited() && s.ExitStatus() == guardianTimeUp)
			close(g.ended)
			if !g.dismissed.Load() && !g.timeUp.Load() {
				died()
			}
		}
	})
	if err != nil {
		_ = write.Close()
		return nil, err
	}
	return g, nil
}

// The lines are shorter than a pipe's buffer, and few: a write does not wait. To a guardian that has died it fails; then the
// parent-death signal is what is left.

func (g *guardian) watch(pgid int) { fmt.Fprintf(g.pipe, "watch %d\n", pgid) }

func (g *guardian) killAfter(d time.Duration) {
	fmt.Fprintf(g.pipe, "kill-after %d %d\n", d, time.Now().Add(d).UnixNano())
}

// dismiss ends the guardian, which then does nothing to the group.
func (g *guardian) dismiss() {
	g.dismissed.Store(true)
	fmt.Fprintln(g.pipe, "dismissed")
	_ = g.pipe.Close()
	select {
	case <-g.ended:
	case <-time.After(time.Second):
		_ = syscall.Kill(g.pid, syscall.SIGKILL)
	}
}

// beGuardian is the guardian's main function. What is sent to everybody (systemd does that, to a whole service) is not for it.
func beGuardian() int {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGTSTP, syscall.SIGPIPE)
	return guard(os.NewFile(3, "orders"))
}

// guard follows orders until they end, or say so.
func guard(orders io.Reader) int {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(orders); s.Scan(); {
			lines <- s.Text()
		}
	}()
	pgid := 0
	kill := func(code int) int {
		if pgid > 1 {
			_ = syscall.Kill(-pgid, syscall.SIGKILL)
		}
		return code
	}
	// Neither clock alone: one stands still during a suspend, the other can be set.
	var monotonic, wall time.Time
	look := time.NewTicker(time.Second)
	defer look.Stop()
	var due <-chan time.Time
	for {
		select {
		case line, ok := <-lines:
			var remaining, at int64
			switch {
			case !ok:
				return kill(0)
			case line == "dismissed":
				return 0
			}
			if n, _ := fmt.Sscanf(line, "watch %d", &pgid); n == 1 {
				continue
			}
			if n, _ := fmt.Sscanf(line, "kill-after %d %d", &remaining, &at); n == 2 {
				monotonic, wall = time.Now().Add(time.Duration(remaining)), time.Unix(0, at)
				due = time.After(time.Duration(remaining))
			}
		case <-due:
			return kill(guardianTimeUp)
		case <-look.C:
			if !wall.IsZero() && (time.Now().Round(0).After(wall) || time.Now().After(monotonic)) {
				return kill(guardianTimeUp)
			}
		}
	}
}
