//go:build unix

package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A job is a command in a process group of its own, and the guardian of that group.
type job struct {
	pid      int           // of the command, and of its group
	done     chan struct{} // closed when the command has ended
	code     int           // valid then
	guardian *guardian
	log      *slog.Logger
	terminal *terminal
}

// startJob starts a command, and before it the guardian that ends the group if this process cannot any more, and at killAt unless
// killAfter is called. The command's program is not executed before the guardian watches, and not if held returns an error then.
func startJob(path string, argv, env []string, killAt time.Time, held func() error, log *slog.Logger) (*job, error) {
	j := &job{done: make(chan struct{}), log: log, terminal: findTerminal()}
	started := make(chan error)
	go func() {
		// The parent-death signal comes when the thread ends that has started the process, so it stays with this goroutine.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := j.start(path, argv, env, killAt, held)
		started <- err
		if err == nil {
			<-j.done
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return j, nil
}

func (j *job) start(path string, argv, env []string, killAt time.Time, held func() error) error {
	g, err := startGuardian(func() {
		j.log.Warn("the guardian of the command has died: if pglease is killed now, only the command itself is sure to end")
	})
	if err != nil {
		return exit(codeSystem, "starting the guardian of the command: %v", err)
	}
	g.killAfter(killAt)
	j.guardian = g
	if err := j.startWatched(path, argv, env, killAt, held); err != nil {
		g.dismiss()
		return err
	}
	return nil
}

// startWatched starts the command, when the guardian is there.
func (j *job) startWatched(path string, argv, env []string, killAt time.Time, held func() error) error {
	gate, err := newGate()
	if err != nil {
		return exit(codeSystem, "starting the command: %v", err)
	}
	defer gate.close()
	attributes := &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(attributes)
	// The files themselves, no pipes in between: a grandchild that keeps one open keeps nobody waiting (W4).
	j.pid, err = gate.start(path, argv, &os.ProcAttr{
		Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: attributes,
	}, j.changed)
	if errors.Is(err, syscall.E2BIG) {
		return exit(codeCannot, "%s: %v", path, syscall.E2BIG)
	}
	if err != nil {
		return exit(codeSystem, "starting the command: %v", err)
	}
	if err = j.guardian.watch(j.pid, killAt); err != nil {
		err = exit(codeSystem, "the guardian of the command does not watch: %v", err)
	} else if err = held(); err == nil {
		err = gate.pass(path)
	}
	if err == nil {
		return nil
	}
	gate.close()
	select {
	case <-j.done:
	default:
		j.kill() // it may have been stopped
		<-j.done
	}
	var cannot *fs.PathError
	switch {
	case errors.Is(err, errGate):
		return exit(codeSystem, "%v", err)
	case errors.As(err, &cannot) && errors.Is(err, fs.ErrNotExist):
		return exit(codeNotFound, "%v", err)
	case errors.As(err, &cannot):
		return exit(codeCannot, "%v", err)
	}
	return err
}

// changed is told what has become of the command.
func (j *job) changed(status syscall.WaitStatus) {
	switch {
	case status.Stopped():
		j.terminal.stopped(j, status.StopSignal())
	case status.Signaled():
		j.code = codeSignal + int(status.Signal())
		close(j.done)
	case status.Exited():
		j.code = status.ExitStatus()
		close(j.done)
	}
}

// signal sends a signal to the whole group. As long as it has a member, its number is given to nobody else.
func (j *job) signal(sig syscall.Signal) {
	if err := syscall.Kill(-j.pid, sig); errors.Is(err, syscall.EPERM) {
		j.log.Error("the command belongs to another user and cannot be sent a signal", "signal", sig.String())
	}
}

// forward passes on a signal that this process got.
func (j *job) forward(sig os.Signal) {
	switch sig {
	case syscall.SIGTSTP:
		j.log.Warn("not suspended: the lease would not wait")
	case syscall.SIGALRM, syscall.SIGCONT, syscall.SIGWINCH:
		j.signal(sig.(syscall.Signal))
	default:
		j.signal(sig.(syscall.Signal))
		j.log.Info("passed a signal on", "signal", sig.String())
	}
}

// terminate asks the group to end. What is stopped has to go on to hear of it.
func (j *job) terminate() {
	j.signal(syscall.SIGTERM)
	j.signal(syscall.SIGCONT)
}

func (j *job) kill() { j.signal(syscall.SIGKILL) }

// gone reports whether nobody of the group is left, and the command's end is known.
func (j *job) gone() bool {
	select {
	case <-j.done:
	default:
		return false
	}
	err := syscall.Kill(-j.pid, 0)
	// EPERM: whoever is left is another user's (sudo). On macOS it is also what a group of zombies answers.
	return errors.Is(err, syscall.ESRCH) || runtime.GOOS != "linux" && errors.Is(err, syscall.EPERM)
}

// killAfter has the guardian kill the group after an instant, unless it is told otherwise before.
func (j *job) killAfter(t time.Time) { j.guardian.killAfter(t) }

// endedByGuardian reports whether the guardian has killed the group because its time was over. It is asked when that time is
// over, and waits a moment for the answer.
func (j *job) endedByGuardian() bool {
	select {
	case <-j.guardian.ended:
	case <-time.After(time.Second):
	}
	return j.guardian.timeUp.Load()
}

// close dismisses the guardian, after the group has ended.
func (j *job) close() {
	j.guardian.dismiss()
	j.terminal.takeBack(j.pid)
}

// children are the processes that this one has started, and those that it has inherited: as PID 1, and on Linux always, it is
// the parent of those whose parents have ended, and reaps them (W6). One place waits for all of them, so that none is
// reaped behind the back of who wants to know.
var children = family{told: make(map[int]func(syscall.WaitStatus))}

type family struct {
	mu   sync.Mutex
	told map[int]func(syscall.WaitStatus)
	once sync.Once
}

// start starts a process, of which f is told when it stops and when it has ended.
func (fam *family) start(path string, argv []string, attributes *os.ProcAttr, f func(syscall.WaitStatus)) (pid int, err error) {
	fam.mu.Lock() // reap must not look for f before it is there
	defer fam.mu.Unlock()
	p, err := os.StartProcess(path, argv, attributes)
	if err != nil {
		return 0, err
	}
	fam.told[p.Pid] = f
	pid = p.Pid
	_ = p.Release() // or its finalizer does
	// Not before the first process has been started: os waits for a child of its own then, to see what the kernel can do.
	fam.once.Do(fam.watch)
	return pid, nil
}

// reap waits for whoever has ended.
func (fam *family) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		fam.mu.Lock()
		f := fam.told[pid]
		if !status.Stopped() {
			delete(fam.told, pid)
		}
		fam.mu.Unlock()
		if f != nil {
			f(status)
		}
	}
}
