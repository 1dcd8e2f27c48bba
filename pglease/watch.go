package pglease

import (
	"context"
	"errors"
	"reflect"
	"time"
)

// A watch is a goroutine that hears of the session's end.
type watch struct {
	stop func()
	done chan struct{} // closed when it has left the connection
}

// watchAfter is how long a connection is idle before somebody watches it: to start a watch and to stop it costs as much as a
// statement, which a lease that is released at once need not pay.
const watchAfter = 2 * time.Millisecond

// startWatching is called by whoever has the turn.
func (p *pinned) startWatching() {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{done: make(chan struct{})}
	p.watching = w
	start := time.AfterFunc(watchAfter, func() {
		defer close(w.done)
		err := p.waitForEnd(ctx)
		if err != nil && ctx.Err() == nil {
			p.end(err)
		}
	})
	w.stop = func() {
		cancel()
		if start.Stop() {
			close(w.done)
		}
	}
}

// stopWatching returns when the connection is free for a statement. It is called by whoever has the turn.
func (p *pinned) stopWatching(ctx context.Context) error {
	if p.watching == nil {
		return nil
	}
	p.watching.stop()
	select {
	case <-p.watching.done:
		p.watching = nil
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dropWatch has the watch leave the connection as soon as it can. It is called by whoever has the turn.
func (p *pinned) dropWatch() {
	if p.watching != nil {
		p.watching.stop()
		p.watching = nil
	}
}

// watchAgain takes the place of a watch that was stopped in vain: nobody could wait until it had left the connection.
func (p *pinned) watchAgain(stopped *watch) {
	<-stopped.done
	<-p.turn
	defer func() { p.turn <- struct{}{} }()
	if p.watching == stopped && p.ended.Err() == nil && !p.left.Load() {
		p.startWatching()
	}
}

// errNoWait tells that a driver's connection has no way to wait for the server.
var errNoWait = errors.New("the driver cannot wait for a message of the server")

// waitForEnd returns nil when ctx has ended, or the error by which the session ended. Where the driver can wait for a
// notification it does, so that the server sees an idle session, whose client's death it notices at once; otherwise it pings.
func (p *pinned) waitForEnd(ctx context.Context) error {
	raw, ok := p.rawConn()
	for ok {
		var waitErr error
		err := raw.Raw(func(driverConn any) error {
			wait := notificationWait(driverConn)
			if wait == nil {
				waitErr = errNoWait
				return nil
			}
			turn, cancel := p.watchTurn(ctx)
			defer cancel()
			for waitErr == nil {
				waitErr = wait(turn)
			}
			if ctx.Err() == nil && (turn.Err() != nil || p.given != nil && isBusy(driverConn, waitErr)) {
				waitErr = nil // somebody else may want to use the connection, or does
			}
			return nil
		})
		if errors.Is(waitErr, errNoWait) && err == nil {
			break
		}
		if err = errors.Join(err, waitErr); err != nil || ctx.Err() != nil {
			return err
		}
		pause(ctx, time.Millisecond)
	}
	return p.pingUntilEnd(ctx)
}

// givenTurn is how long the watch keeps a connection of the caller's to itself: whoever waits for it longer, has it then.
const givenTurn = 250 * time.Millisecond

func (p *pinned) watchTurn(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.given == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, givenTurn)
}

// isBusy reports whether a wait failed only because the caller reads from the connection just now: its driver says that the
// same can be tried again, and that the connection is not closed.
func isBusy(driverConn any, err error) (busy bool) {
	var e interface{ SafeToRetry() bool }
	if !errors.As(err, &e) || !e.SafeToRetry() {
		return false
	}
	eachLayer(driverConn, func(v reflect.Value) (found bool) {
		closed, ok := v.Interface().(interface{ IsClosed() bool })
		busy = ok && !closed.IsClosed()
		return ok
	})
	return busy
}

func (p *pinned) rawConn() (session, bool) {
	if p.given == nil {
		return p.conn, true
	}
	s, ok := p.given.(session)
	return s, ok
}

// pingUntilEnd does not interrupt a ping when ctx ends: a statement that is cancelled costs the connection.
func (p *pinned) pingUntilEnd(ctx context.Context) error {
	ticker := time.NewTicker(p.check)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		pingCtx, cancel := context.WithTimeout(context.Background(), callTimeout)
		pid, err := queries.PingSession(pingCtx, p.statements())
		cancel()
		if err != nil {
			return err
		}
		if pid != p.pid {
			return pooled("the lease's connection changed its session")
		}
	}
}
