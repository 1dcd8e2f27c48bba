package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// endLimit is how long a postmaster may take to end; after an immediate shutdown it kills its children itself after 5 s.
const endLimit = 20 * time.Second

// Crash ends the server as a crash does, without a checkpoint and without a word to its clients (immediate shutdown),
// and returns when its processes are gone. A frozen server is thawed for it. The data directory stays for
// [Server.Restart]. A server that is already down is left as it is. Local only, else [ErrNotHere].
func (s *Server) Crash() error { return s.bringDown("crash", syscall.SIGQUIT) }

// Shutdown ends the server in order (fast shutdown: clients are disconnected, data is flushed) and returns when its
// processes are gone. A frozen server is thawed for it. The data directory stays for [Server.Restart]. A server that
// is already down is left as it is. Local only, else [ErrNotHere].
func (s *Server) Shutdown() error { return s.bringDown("shutdown", syscall.SIGINT) }

func (s *Server) bringDown(what string, sig syscall.Signal) error {
	if err := s.here(what); err != nil {
		return err
	}
	s.local.mu.Lock()
	defer s.local.mu.Unlock()
	if err := s.local.end(sig); err != nil {
		return fmt.Errorf("pgserver: %s: %w", what, err)
	}
	return nil
}

// Restart starts a server that is down again, on the same port and data directory, and returns when it answers,
// recovery included; it gets 60 s. If it fails the server stays down. Local only, else [ErrNotHere].
func (s *Server) Restart(ctx context.Context) error {
	if err := s.here("restart"); err != nil {
		return err
	}
	s.local.mu.Lock()
	defer s.local.mu.Unlock()
	if s.local.running() {
		return errors.New("pgserver: restart: the server runs")
	}
	if _, err := os.Stat(s.local.data); err != nil {
		return fmt.Errorf("pgserver: restart: the server was stopped: %w", err)
	}
	if err := s.launch(ctx); err != nil {
		return fmt.Errorf("pgserver: restart: %w", err)
	}
	return nil
}

// Freeze stops every process of the server where it stands (SIGSTOP): connections stay open and nothing answers, which
// is how a hung machine looks from outside. It returns when all of them have stopped. A frozen server is left as it is.
// Should this process end, the server is thawed so that it can end too. Local on Unix only, else [ErrNotHere].
func (s *Server) Freeze() error {
	if err := s.here("freeze"); err != nil {
		return err
	}
	l := s.local
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running() {
		return errors.New("pgserver: freeze: the server is down")
	}
	if l.frozen != nil {
		return nil
	}
	frozen, err := freezeFamily(l.proc.cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("pgserver: freeze: %w", err)
	}
	l.frozen = frozen
	return nil
}

// Thaw lets a frozen server go on (SIGCONT); one that isn't frozen is left as it is. Local on Unix only, else
// [ErrNotHere].
func (s *Server) Thaw() error {
	if err := s.here("thaw"); err != nil {
		return err
	}
	s.local.mu.Lock()
	defer s.local.mu.Unlock()
	if err := s.local.thaw(); err != nil {
		return fmt.Errorf("pgserver: thaw: %w", err)
	}
	return nil
}

func (l *local) thaw() error {
	if l.frozen == nil {
		return nil
	}
	f := l.frozen
	l.frozen = nil
	return f.thaw()
}

func (l *local) running() bool { return l.proc != nil && !l.proc.ended() }

// end sends the postmaster sig and waits until it has ended, and with it its children. The caller holds l.mu.
func (l *local) end(sig syscall.Signal) error {
	if !l.running() {
		return nil
	}
	// The signal goes first: a frozen postmaster then acts on it as soon as it is thawed.
	if err := tell(l.path("pg_ctl"), l.proc.cmd.Process, sig); err != nil {
		return err
	}
	thawed := l.thaw()
	limit := time.NewTimer(endLimit)
	defer limit.Stop()
	select {
	case <-l.proc.done:
		return thawed
	case <-limit.C:
		return errors.Join(thawed, fmt.Errorf("the server did not end within %v", endLimit))
	}
}

// destroy is Stop.
func (l *local) destroy() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.primary != nil {
		forgetStandby(l.primary)
	}
	var errs []error
	if err := l.end(syscall.SIGQUIT); err != nil {
		errs = append(errs, err, killFamily(l.proc.cmd.Process))
		<-l.proc.done
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}
