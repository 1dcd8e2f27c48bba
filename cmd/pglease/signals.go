package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// A relay passes the signals that this process gets on to the command. Before there is a command, a signal that asks to end
// does end the wait; and from then on no command is started (W1).
type relay struct {
	incoming chan os.Signal
	cancel   context.CancelFunc // of the wait

	mu    sync.Mutex
	job   *job      // nil while no command runs
	first os.Signal // that asked to end
}

// relaySignals begins to relay. cancel is called when a signal asks to end.
func relaySignals(cancel context.CancelFunc) *relay {
	outliveReader()
	r := &relay{incoming: make(chan os.Signal, 64), cancel: cancel}
	for _, sig := range relayed {
		if !signal.Ignored(sig) { // nohup
			signal.Notify(r.incoming, sig)
		}
	}
	go func() {
		for sig := range r.incoming {
			r.handle(sig)
		}
	}()
	return r
}

func (r *relay) stop() {
	signal.Stop(r.incoming)
	close(r.incoming)
}

func (r *relay) handle(sig os.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.job == nil {
		pause(sig)
	} else {
		r.job.forward(sig)
	}
	if (asksToEnd(sig) || r.job == nil && sig == syscall.SIGHUP) && r.first == nil {
		r.first = sig
		r.cancel()
	}
}

// asksToEnd reports whether a signal ends a loop. HUP does not: to many a daemon it says that its configuration has changed.
func asksToEnd(sig os.Signal) bool {
	return sig == syscall.SIGINT || sig == syscall.SIGQUIT || sig == syscall.SIGTERM
}

// start starts a command unless a signal has asked to end. A signal that comes meanwhile is passed on when the command has
// started.
func (r *relay) start(f func() (*job, error)) (*job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first != nil {
		return nil, r.exit()
	}
	j, err := f()
	if err != nil {
		return nil, err
	}
	r.job = j
	return j, nil
}

// ended says that the command has ended.
func (r *relay) ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.job = nil
}

// asked reports whether a signal has asked to end.
func (r *relay) asked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first != nil
}

// asExit returns the end by the signal, if one has asked for it, and err otherwise.
func (r *relay) asExit(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == nil {
		return err
	}
	return r.exit()
}

func (r *relay) exit() *exitError {
	return exit(codeSignal+signalNumber(r.first), "ended by a signal (%v) while no command ran", r.first)
}

func signalNumber(sig os.Signal) int {
	if s, ok := sig.(syscall.Signal); ok {
		return int(s)
	}
	return int(syscall.SIGTERM)
}
