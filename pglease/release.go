package pglease

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
)

// Release ends the term: Done closes, Err is ErrReleased from then on, and the name is free, or will be when its minimum hold
// is over. If ctx is done already, Release takes a context of its own of 5 s; otherwise the end of ctx ends the call.
//
// It returns a *LostError if the lease was lost before, or turns out to be gone, and another error if the outcome is
// unknown: then the name is free when the TTL ends at the latest, and Release may be called again, which returns nil if the term
// is over by then, however it ended. After it has returned nil or ErrLost, further calls return nil. No goroutine, connection or lock is left behind.
func (l *Lease) Release(ctx context.Context) error {
	if ctx.Err() != nil {
		fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		ctx = fresh
	}
	select {
	case <-l.releasing:
		defer func() { l.releasing <- struct{}{} }()
	case <-ctx.Done():
		return &BackendError{Op: "release", text: "another release is under way: " + ctx.Err().Error(), cause: ctx.Err}
	}
	if l.concluded {
		return nil
	}
	if err := l.Err(); err != nil && !errors.Is(err, ErrReleased) {
		l.concluded = true
		return err
	}
	// Believing ends before the server can give the name to another.
	l.mu.Lock()
	switch l.state {
	case held:
		l.end(released, ErrReleased)
	case lost:
		defer l.mu.Unlock()
		l.concluded = true
		return l.err
	default:
		l.mu.Unlock()
	}
	start := time.Now()
	err := l.sendRelease(ctx)
	if errors.Is(err, ErrLost) {
		err = &LostError{Name: l.term.Name, Token: l.term.Token, Reason: LossGone}
	}
	if errors.Is(err, ErrLost) && l.doubted {
		err = nil // the row is as a release leaves it, and the one before, whose answer was lost, was ours
	}
	l.concluded = err == nil || errors.Is(err, ErrLost)
	l.doubted = !l.concluded
	c := l.client
	c.observe(ctx, Event{Kind: EventRelease, Name: l.term.Name, Token: l.term.Token, Start: start, Held: start.Sub(l.began), Err: err})
	if err != nil {
		c.log.Warn("release failed", zap.String("name", l.term.Name), zap.Int64("token", l.term.Token), zap.Error(err))
		return err
	}
	c.log.Debug("lease released", zap.String("name", l.term.Name), zap.Int64("token", l.term.Token))
	c.wakeWaiters(l.term.Name)
	return nil
}

func (l *Lease) sendRelease(ctx context.Context) error {
	c := l.client
	_, err := call(ctx, c, "release", Zombie{Name: l.term.Name, Token: l.term.Token, Kind: ZombieCall},
		func(ctx context.Context) (struct{}, error) {
			return struct{}{}, c.backend.Release(ctx, l.term, l.config.minHold)
		}, nil)
	return err
}

// abandon ends the term on this side only, because of err: the row expires with its TTL.
func (l *Lease) abandon(ctx context.Context, err error) {
	l.mu.Lock()
	if l.state != held {
		l.mu.Unlock()
		return
	}
	l.end(released, ErrReleased)
	l.client.backend.Forget(l.term)
	l.client.observe(ctx, Event{Kind: EventRelease, Name: l.term.Name, Token: l.term.Token, Start: time.Now(), Held: time.Since(l.began), Err: err})
}
