//go:build unix

package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"
)

const freezeLimit = 5 * time.Second

type processInfo struct {
	pid, parent int
	state       byte // as ps shows it: T is stopped, Z has ended
}

// freeze is a stopped family of processes.
type freeze struct {
	pids  []int
	guard *process
	pipe  io.Closer // the guard acts when it is closed
}

func freezeFamily(postmaster int) (_ *freeze, err error) {
	f := &freeze{pids: []int{postmaster}}
	defer func() {
		if err != nil {
			err = errors.Join(err, signalAll(f.pids, syscall.SIGCONT))
		}
	}()
	// The postmaster comes first and has to stand still before the children are listed: the list would miss a child
	// that it forks meanwhile.
	if err := stopAll(f.pids); err != nil {
		return nil, err
	}
	children, err := descendants(postmaster)
	if err != nil {
		return nil, err
	}
	f.pids = append(f.pids, children...)
	if err := stopAll(f.pids); err != nil {
		return nil, err
	}
	return f, f.startGuard()
}

// startGuard starts a shell that thaws the family when this process ends, which closes the pipe. A stopped process
// acts on no signal but SIGCONT and SIGKILL, so a test that dies with a frozen server would leave one for ever.
func (f *freeze) startGuard() error {
	args := []string{"-c", `read -r _; kill -CONT "$@" 2>/dev/null`, "sh"}
	for _, pid := range f.pids {
		args = append(args, strconv.Itoa(pid))
	}
	cmd := exec.Command("/bin/sh", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal must not end it
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd.Stdin = r
	if err := cmd.Start(); err != nil {
		return errors.Join(err, w.Close())
	}
	f.pipe = w
	f.guard = &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(f.guard.done)
	}()
	return nil
}

// thaw continues the children first, so that they are awake when the postmaster wants something of them.
func (f *freeze) thaw() error {
	slices.Reverse(f.pids)
	err := errors.Join(signalAll(f.pids, syscall.SIGCONT), f.pipe.Close())
	<-f.guard.done
	return err
}

// stopAll returns when all of them stand still: a process on another processor goes on for a moment after its signal.
func stopAll(pids []int) error {
	if err := signalAll(pids, syscall.SIGSTOP); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), freezeLimit)
	defer cancel()
	return until(ctx, nil, func(context.Context) error {
		all, err := listProcesses()
		if err != nil {
			return err
		}
		for _, p := range all {
			if slices.Contains(pids, p.pid) && p.state != 'T' && p.state != 'Z' {
				return fmt.Errorf("process %d has not stopped", p.pid)
			}
		}
		return nil
	})
}

// signalAll takes it as done if a process has ended.
func signalAll(pids []int, sig syscall.Signal) error {
	var errs []error
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("signal %v to process %d: %w", sig, pid, err))
		}
	}
	return errors.Join(errs...)
}

func descendants(pid int) ([]int, error) {
	all, err := listProcesses()
	if err != nil {
		return nil, err
	}
	var found []int
	for parents := []int{pid}; len(parents) > 0; parents = parents[1:] {
		for _, p := range all {
			if p.parent == parents[0] {
				found = append(found, p.pid)
				parents = append(parents, p.pid)
			}
		}
	}
	return found, nil
}

// killFamily ends a server that does not end by itself.
func killFamily(p *os.Process) error {
	children, err := descendants(p.Pid)
	return errors.Join(err, p.Kill(), signalAll(children, syscall.SIGKILL))
}
