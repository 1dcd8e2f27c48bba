//go:build !linux

package pgserver

import (
	"os/exec"
	"syscall"
)

// spawn starts cmd. Only Linux can tie it to the life of this process, so last is not used here.
func spawn(cmd *exec.Cmd, _ syscall.Signal) (*process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(p.done)
	}()
	return p, nil
}
