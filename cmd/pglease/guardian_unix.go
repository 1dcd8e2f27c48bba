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
// gets lines: "kill-after NANOSECONDS WALL-CLOCK", "watch PGID", "dismissed". It answers the second one.
type guardian struct {
	pipe    *os.File
	answers *os.File // a byte when it watches
	ended   chan struct{}
	pid     int

	dismissed atomic.Bool
	timeUp    atomic.Bool // it has killed the group, since nobody told it that there is more time; set before ended is closed
}

// guardianTimeUp is the exit code of a guardian that has killed the group because the time was over.
const guardianTimeUp = 3

// startGuardian starts one, and calls died if it ends without having been dismissed, and without having done its work.
func startGuardian(died func()) (*guardian, error) {
	exe, err := ownExecutable()
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	answers, answer, err := os.Pipe()
	if err != nil {
		_ = write.Close()
		return nil, err
	}
	defer answer.Close()
	g := &guardian{pipe: write, answers: answers, ended: make(chan struct{})}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		g.close()
		return nil, err
	}
	defer null.Close()
	// In a session of its own, so that what is sent to our group or comes from the terminal does not reach it; with none of
	// our files and none of our environment, where the password is.
	g.pid, err = children.start(exe, []string{guardianName}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{null, null, null, read, answer}, Sys: &syscall.SysProcAttr{Setsid: true},
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
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *guardian) close() {
	_ = g.pipe.Close()
	_ = g.answers.Close()
}

// ownExecutable is the path of this program.
func ownExecutable() (string, error) {
	if _, err := os.Stat(selfExe); err == nil {
		return selfExe, nil
	}
	if exe, err := os.Executable(); err == nil {
		return exe, nil
	}
	return exec.LookPath(os.Args[0])
}

// The lines are shorter than a pipe's buffer, and few: a write does not wait. To a guardian that has died it fails; then the
// parent-death signal is what is left.

// watch names the group to watch, and returns when the guardian has heard of it: before an instant, or with an error.
func (g *guardian) watch(pgid int, before time.Time) error {
	if _, err := fmt.Fprintf(g.pipe, "watch %d\n", pgid); err != nil {
		return err
	}
	_ = g.answers.SetReadDeadline(before)
	_, err := g.answers.Read(make([]byte, 1))
	return err
}

// killAfter names the instant of the kill: as the time that is left, and by the wall clock. Both follow from one look at the
// clock, so that a stop of this process between here and the write moves the latter by nothing.
func (g *guardian) killAfter(t time.Time) {
	now := time.Now()
	d := min(t.Sub(now), t.Round(0).Sub(now.Round(0)))
	fmt.Fprintf(g.pipe, "kill-after %d %d\n", d, now.Add(d).UnixNano())
}

// dismiss ends the guardian, which then does nothing to the group.
func (g *guardian) dismiss() {
	g.dismissed.Store(true)
	fmt.Fprintln(g.pipe, "dismissed")
	g.close()
	select {
	case <-g.ended:
	case <-time.After(time.Second):
		_ = syscall.Kill(g.pid, syscall.SIGKILL)
	}
}

// beGuardian is the guardian's main function. What is sent to everybody (systemd does that, to a whole service) is not for it.
func beGuardian() int {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGTSTP, syscall.SIGPIPE)
	return guard(os.NewFile(3, "orders"), os.NewFile(4, "answers"))
}

// guard follows orders until they end, or say so.
func guard(orders io.Reader, answers io.Writer) int {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(orders); s.Scan(); {
			lines <- s.Text()
		}
	}()
	w := watch{answers: answers}
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case line, ok := <-lines:
			if end, code := w.take(line, ok); end {
				return code
			}
			continue
		case <-w.due:
		case <-look.C:
			if !w.over() {
				continue
			}
		}
		// What has been said by now counts: after a stop of this process, the line that there is more time may be waiting too.
		select {
		case line, ok := <-lines:
			if end, code := w.take(line, ok); end {
				return code
			}
		case <-time.After(lastWord):
			return w.kill(guardianTimeUp)
		}
	}
}

// lastWord is how long the guardian waits for a line that is there already. It is small against runOptions.slack.
const lastWord = 10 * time.Millisecond

// A watch is what the guardian knows.
type watch struct {
	answers io.Writer
	pgid    int // 0: not yet
	// The end of the time. Neither clock alone: one stands still during a suspend, the other can be set.
	monotonic, wall time.Time
	due             <-chan time.Time
}

// take takes a line, or their end, and says whether that is the end of the watch too.
func (w *watch) take(line string, ok bool) (end bool, code int) {
	switch {
	case !ok:
		return true, w.kill(0)
	case line == "dismissed":
		return true, 0
	}
	var remaining, at int64
	if n, _ := fmt.Sscanf(line, "watch %d", &w.pgid); n == 1 {
		_, _ = w.answers.Write([]byte{'\n'})
	} else if n, _ := fmt.Sscanf(line, "kill-after %d %d", &remaining, &at); n == 2 {
		w.monotonic, w.wall = time.Now().Add(time.Duration(remaining)), time.Unix(0, at)
	}
	if !w.wall.IsZero() {
		w.due = time.After(min(time.Until(w.monotonic), time.Until(w.wall)))
	}
	return false, 0
}

func (w *watch) over() bool {
	return !w.wall.IsZero() && (time.Now().Round(0).After(w.wall) || time.Now().After(w.monotonic))
}

func (w *watch) kill(code int) int {
	if w.pgid > 1 {
		_ = syscall.Kill(-w.pgid, syscall.SIGKILL)
	}
	return code
}
