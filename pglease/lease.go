package pglease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/pglease/pglease-go/pglease/internal/trust"
)

// A leaseState is what a Lease is: held, and then one of the others for ever.
type leaseState int

const (
	held leaseState = iota
	lost
	released
)

// A Lease is one term: the exclusive right to a name, from its grant until it is released or lost. It is renewed in the
// background. It may be used by several goroutines at once.
type Lease struct {
	client     *Client
	term       Term
	acquiredAt time.Time
	began      time.Time // by the local clock
	mode       Mode
	config     leaseConfig
	ctx        *leaseContext
	done       chan struct{}

	mu        sync.Mutex
	state     leaseState
	err       error // what Err returns
	expiresAt time.Time
	start     time.Time     // of the last successful attempt, by the local clock
	deadline  trust.Instant // its trust deadline
	timer     *time.Timer   // fires at a deadline, and looks whether it still is one
	lastError error         // of a renewal

	releasing chan struct{} // holds a token while nobody releases
	concluded bool          // a release has told the outcome; guarded by releasing
	doubted   bool          // a release could not tell it; guarded by releasing

	beat pulse // guarded by client.mu
}

// newLease starts the life of a term: trust counts from g.Start. The caller hands it to the heartbeat.
func (c *Client) newLease(values context.Context, g Grant, config leaseConfig) *Lease {
	l := &Lease{
		client:     c,
		term:       g.Term,
		acquiredAt: g.AcquiredAt,
		began:      g.Start,
		mode:       ModeTable,
		config:     config,
		done:       make(chan struct{}),
		expiresAt:  g.ExpiresAt,
		start:      g.Start,
		deadline:   trust.Deadline(trust.At(g.Start), config.ttl, config.margin),
		releasing:  make(chan struct{}, 1),
	}
	l.releasing <- struct{}{}
	l.ctx = newLeaseContext(context.WithoutCancel(values), l)
	l.mu.Lock() // timeUp may run before the timer is assigned
	l.timer = time.AfterFunc(l.deadline.Until(trust.Now()), l.timeUp)
	l.mu.Unlock()
	if g.Session != nil {
		l.mode = ModeHybrid
		context.AfterFunc(g.Session, func() { l.lost(LossSession, context.Cause(g.Session)) })
	}
	return l
}

// String says which term it is: its name, owner and token. How it stands, Err tells.
func (l *Lease) String() string {
	return fmt.Sprintf("%q of %s, token %d", l.term.Name, l.term.Owner, l.term.Token)
}

// Name returns the name that is leased.
func (l *Lease) Name() string { return l.term.Name }

// Owner returns the owner that the row shows: the client's, the same for all its leases.
func (l *Lease) Owner() string { return l.term.Owner }

// Token returns the fencing token of the term: higher than that of every term before it under this name. Hand it to
// systems that can refuse a lower one than they have seen.
func (l *Lease) Token() int64 { return l.term.Token }

// AcquiredAt returns when the term began, by the server's clock, in UTC.
func (l *Lease) AcquiredAt() time.Time { return l.acquiredAt }

// ExpiresAt returns until when the server keeps the lease without another renewal, by its clock, in UTC. Do not compare it
// with a local time: Deadline is for that.
func (l *Lease) ExpiresAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expiresAt
}

// Deadline returns the trust deadline as a local time, in UTC: up to then the lease may be believed in without another
// renewal. It is the start of the last successful attempt, plus the TTL, less the safety margin.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start.Add(l.config.ttl - l.config.margin).UTC()
}

// Context returns a context that ends when the lease is lost or released. Its cause (context.Cause) is then the *LostError
// or ErrReleased. It has the values of the context that the lease was acquired with. Its Err compares the clocks, as the
// lease's does.
func (l *Lease) Context() context.Context { return l.ctx }

// Done returns a channel that is closed when the lease is lost or released.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err returns nil while the lease is held, then a *LostError, or ErrReleased. It looks at the clocks itself: a process that
// wakes from a stop or a suspend is told before its timers run.
func (l *Lease) Err() error {
	l.mu.Lock()
	if l.state == held && !l.deadline.After(trust.Now()) {
		return l.lose(LossExpired, nil) // unlocks
	}
	defer l.mu.Unlock()
	return l.err
}

// timeUp runs when a deadline passed that may not be the latest.
func (l *Lease) timeUp() {
	l.mu.Lock()
	if l.state != held {
		l.mu.Unlock()
		return
	}
	if left := l.deadline.Until(trust.Now()); left > 0 {
		l.timer.Reset(left)
		l.mu.Unlock()
		return
	}
	_ = l.lose(LossExpired, nil)
}

// lost ends the term for a reason that came from outside.
func (l *Lease) lost(reason LossReason, cause error) {
	l.mu.Lock()
	if l.state != held {
		l.mu.Unlock()
		return
	}
	_ = l.lose(reason, cause)
}

// lose is the one function through which a held lease becomes a lost one. It is called with l.mu locked and unlocks it. The
// order is part of the contract: Err and Done, the context, OnLost.
func (l *Lease) lose(reason LossReason, cause error) error {
	if cause == nil {
		cause = l.lastError
	}
	err := &LostError{Name: l.term.Name, Token: l.term.Token, Reason: reason, Cause: cause}
	l.end(lost, err)
	c := l.client
	if f := l.config.onLost; f != nil {
		go func() {
			defer func() {
				if p := recover(); p != nil {
					c.log.Error("OnLost panicked", zap.String("name", l.term.Name), zap.Any("panic", p), zap.Stack("stack"))
				}
			}()
			f(l, err)
		}()
	}
	c.backend.Forget(l.term)
	c.log.Error("lease lost", zap.String("name", l.term.Name), zap.Int64("token", l.term.Token),
		zap.String("reason", string(reason)), zap.Error(cause))
	c.observe(context.Background(), Event{Kind: EventLost, Name: l.term.Name, Token: l.term.Token, Held: time.Since(l.began), Err: err})
	return err
}

// end leaves the state held. It is called with l.mu locked and unlocks it.
func (l *Lease) end(state leaseState, err error) {
	l.state, l.err = state, err
	l.timer.Stop()
	close(l.done)
	l.mu.Unlock()
	l.ctx.cancel(err)
	l.client.drop(l)
}

// renewed records that an attempt which began at start has succeeded. An answer that comes after the trust deadline
// is too late: a term is never resurrected.
func (l *Lease) renewed(start, expiresAt time.Time) error {
	l.mu.Lock()
	if l.state != held {
		defer l.mu.Unlock()
		return l.err
	}
	if !l.deadline.After(trust.Now()) {
		return l.lose(LossExpired, nil)
	}
	defer l.mu.Unlock()
	l.lastError = nil
	if start.After(l.start) {
		l.start = start
		l.expiresAt = expiresAt
		l.deadline = trust.Deadline(trust.At(start), l.config.ttl, l.config.margin)
	}
	return nil
}

// Renew renews the lease now, beside its heartbeat. If the server says that the term is over, the lease is lost, and so is
// the answer: a *LostError. Any other error leaves the lease as it was, to be renewed by its heartbeat. ErrReleased after
// a release.
func (l *Lease) Renew(ctx context.Context) error {
	c := l.client
	if err := l.Err(); err != nil {
		return err
	}
	if err := c.begin(); err != nil {
		return err
	}
	defer c.end()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	start := time.Now()
	results, err := c.sendRenewals(ctx, []*Lease{l})
	if err != nil {
		return err
	}
	return l.settle(ctx, start, results[0])
}

// settle applies the server's answer to a renewal that began at start.
func (l *Lease) settle(ctx context.Context, start time.Time, r RenewalResult) (err error) {
	defer func() {
		l.client.observe(ctx, Event{Kind: EventRenew, Name: l.term.Name, Token: l.term.Token, Start: start, Err: err})
	}()
	switch r.State {
	case RenewalDone:
		return l.renewed(start, r.ExpiresAt)
	case RenewalGone:
		l.lost(LossGone, r.Cause)
		return l.Err()
	case RenewalSessionEnded:
		l.lost(LossSession, r.Cause)
		return l.Err()
	default:
		if err := l.Err(); err != nil { // the lock may have been that of its own release
			return err
		}
		if r.Cause != nil {
			return r.Cause
		}
		l.mu.Lock()
		renewed := l.start.After(start)
		l.mu.Unlock()
		if renewed { // the lock was that of the lease's own heartbeat
			return nil
		}
		return &BackendError{Op: "renew", text: fmt.Sprintf("the row of %q is locked by another session", l.term.Name)}
	}
}
