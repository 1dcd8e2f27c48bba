//go:build linux

package main

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/history"
	"github.com/pglease/pglease-go/pglease"
)

// callLimit is how long an actor waits for one call.
const callLimit = 4 * time.Second

// An actor acquires, works and releases, again and again.
type actor struct {
	setup
	r       *recorder
	db      *sql.DB
	c       *pglease.Client
	watches *sync.WaitGroup
	rng     *rand.Rand
}

func (a *actor) act(ctx context.Context) {
	for ctx.Err() == nil {
		name := a.Names[a.rng.IntN(len(a.Names))]
		switch n := a.rng.IntN(100); {
		case n < 38:
			a.acquire(ctx, history.Try, name, callLimit)
		case n < 72:
			a.acquire(ctx, history.Acquire, name, time.Duration(200+a.rng.IntN(5000))*time.Millisecond)
		case n < 81:
			a.do(ctx, name)
		case n < 87:
			a.lead(ctx, name)
		case n < 91:
			a.any(ctx)
		case n < 94:
			a.all(ctx)
		default:
			a.get(ctx, name)
		}
		a.pause(ctx, 60*time.Millisecond)
	}
}

// pause waits for up to most.
func (a *actor) pause(ctx context.Context, most time.Duration) {
	select {
	case <-time.After(time.Duration(a.rng.Int64N(max(1, int64(most))))):
	case <-ctx.Done():
	}
}

func (a *actor) acquire(ctx context.Context, action history.Action, name string, limit time.Duration) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	try := a.c.TryAcquire
	if action == history.Acquire {
		try = a.c.Acquire
	}
	o := a.r.call(0, action, name, 0)
	l, err := try(limited, name)
	if err != nil {
		a.refused(o, err)
		return
	}
	a.r.granted(o, l, a.watches)
	a.hold(ctx, l)
	a.release(l)
}

func (a *actor) refused(o *history.Op, err error) {
	var held *pglease.HeldError
	if !errors.As(err, &held) {
		a.r.end(o, history.Unknown, err)
		return
	}
	o.Token, o.Owner = held.Token, held.Info.Owner
	a.r.end(o, history.Held, err)
}

// release releases until the outcome is known, four times at the most. Only the first answer counts: the later ones say nil
// however the term ended.
func (a *actor) release(l *pglease.Lease) {
	for n := range 4 {
		ctx, cancel := context.WithTimeout(context.Background(), callLimit)
		o := a.r.call(0, history.Release, l.Name(), l.Token())
		err := l.Release(ctx)
		outcome := ofTerm(err)
		if n > 0 {
			outcome = history.No
		}
		a.r.end(o, outcome, err)
		cancel()
		if outcome != history.Unknown && err == nil || errors.Is(err, pglease.ErrLost) {
			return
		}
	}
}

// do runs under a lease that Do acquires and releases.
func (a *actor) do(ctx context.Context, name string) {
	acquire := a.r.call(0, history.Acquire, name, 0)
	var release *history.Op
	err := a.c.Do(ctx, name, func(ctx context.Context, l *pglease.Lease) error {
		a.r.granted(acquire, l, a.watches)
		a.hold(ctx, l)
		release = a.r.call(0, history.Release, name, l.Token())
		return nil
	}, pglease.WaitFor(time.Duration(a.rng.IntN(3000)+1)*time.Millisecond))
	if release != nil {
		a.r.end(release, ofTerm(err), err)
	} else {
		a.refused(acquire, err)
	}
}

// lead leads for some terms, or for some seconds, whichever is over first. It resigns from the last.
func (a *actor) lead(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	acquire := a.r.call(0, history.Acquire, name, 0)
	var release *history.Op
	err := a.c.Lead(ctx, name, func(ctx context.Context, l *pglease.Lease) error {
		if release != nil { // the term before was lost
			a.r.end(release, history.No, nil)
			acquire = a.r.call(0, history.Acquire, name, 0)
			acquire.Call = release.Call
		}
		a.r.granted(acquire, l, a.watches)
		a.hold(ctx, l)
		release = a.r.call(0, history.Release, name, l.Token())
		return nil
	})
	switch {
	case release == nil:
		a.r.end(acquire, history.Unknown, err)
	case err == nil && ctx.Err() == nil:
		a.r.end(release, history.OK, nil)
	default:
		a.r.end(release, history.Unknown, err)
	}
}

func (a *actor) get(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	o := a.r.call(0, history.Get, name, 0)
	info, err := a.c.Get(ctx, name)
	if err != nil {
		a.r.end(o, history.Unknown, err)
		return
	}
	o.Token, o.Owner = info.Token, info.Owner
	o.Live = !info.Expired() && info.HeartbeatAt.Before(info.ExpiresAt)
	a.r.end(o, history.OK, nil)
}

// hold does some work under a lease. It stops when it sees that the lease is lost, but may be late to see it.
func (a *actor) hold(ctx context.Context, l *pglease.Lease) {
	for range a.rng.IntN(8) {
		if ctx.Err() != nil || !a.r.look(l) {
			return
		}
		switch n := a.rng.IntN(100); {
		case n < 40:
			a.pause(ctx, 50*time.Millisecond)
		case n < 80:
			a.write(l)
		case n < 94:
			renewing, cancel := context.WithTimeout(ctx, callLimit)
			_ = l.Renew(renewing) // Observe writes it down
			cancel()
		case n < 98:
			a.pause(ctx, a.Who.TTL/2)
		default:
			a.pause(ctx, a.Who.TTL*3/2)
		}
	}
	a.r.look(l)
}
