//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/faultproxy"
)

// A process is a worker seen from outside.
type process struct {
	setup
	slot *slot
	cmd  *exec.Cmd
	in   io.WriteCloser
	gone chan struct{} // closed when it has ended
	err  error         // how; after gone
}

// A slot is a place for a worker of one kind. When one is killed, another takes its place, with a number of its own.
type slot struct {
	setup
	proxy *faultproxy.Proxy // nil if its route is direct

	busy sync.Mutex // one fault at a time
	mu   sync.Mutex
	now  *process
}

func (s *slot) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// start has a new worker take the place.
func (s *slot) start(id int, seed uint64, dir string) error {
	set := s.setup
	set.ID, set.Seed, set.Pause = id, seed, *pause
	set.DSN = strings.ReplaceAll(set.DSN, clientMark, fmt.Sprint(id))
	set.File = fmt.Sprintf("%s/client-%d.jsonl", dir, id)
	env, err := json.Marshal(set)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p := &process{setup: set, slot: s, cmd: exec.Command(self), gone: make(chan struct{})}
	p.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return slices.Contains(fakeTime, v) }), workerVariable+"="+string(env))
	p.cmd.Stderr = os.Stderr
	// A process group of its own: if the director is killed while the worker is stopped, the kernel ends the worker.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.gone)
	}()
	s.mu.Lock()
	s.now = p
	s.mu.Unlock()
	return nil
}

func (p *process) signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// kill ends it as a crash would.
func (p *process) kill() error {
	err := p.signal(syscall.SIGKILL)
	<-p.gone
	return err
}

// tell asks it to end, and await waits for that.
func (p *process) tell() { _ = p.in.Close() }

func (p *process) await(limit time.Duration) error {
	select {
	case <-p.gone:
		return p.err
	case <-time.After(limit):
		// What it was doing goes to standard error.
		_ = p.signal(syscall.SIGQUIT)
		select {
		case <-p.gone:
		case <-time.After(5 * time.Second):
			_ = p.kill()
		}
		return errors.New("it did not end")
	}
}
