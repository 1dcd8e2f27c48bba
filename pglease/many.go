package pglease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

// TryAcquireAny makes one attempt to acquire the lease of any one of names, chosen at random of those that are free, with
// one statement. If all are held, the error is the *HeldError of the one that can expire first.
// Otherwise it is as TryAcquire.
func (c *Client) TryAcquireAny(ctx context.Context, names []string, opts ...AcquireOption) (*Lease, error) {
	names, config, err := c.admitAll(names, opts)
	if err != nil {
		return nil, err
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.end()
	l, _, err := c.tryOnce(ctx, names, config, false)
	return l, err
}

// AcquireAny waits until the lease of one of names is free, and acquires it. It waits as Acquire does, in one queue for all
// calls of this client with the same set of names.
func (c *Client) AcquireAny(ctx context.Context, names []string, opts ...AcquireOption) (*Lease, error) {
	names, config, err := c.admitAll(names, opts)
	if err != nil {
		return nil, err
	}
	return c.waitObserved(ctx, names, config)
}

// Leases are what AcquireAll returns, in byte order of their names.
type Leases []*Lease

// Release releases all of them, and returns their errors joined. It is as Lease.Release.
func (ls Leases) Release(ctx context.Context) error {
	if ctx.Err() != nil { // one fresh context for all, not one for each
		fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		ctx = fresh
	}
	errs := make([]error, len(ls))
	for i, l := range slices.Backward(ls) {
		errs[i] = l.Release(ctx)
	}
	return errors.Join(errs...)
}

// AcquireAll waits until it has the leases of all names at once, in whatever order they were given; a name given twice is
// acquired once. It never keeps one while it waits for another: if one is held, it gives back what it has, waits for that one,
// and starts again from there. So any number of clients may ask for overlapping names, and none of them deadlocks.
//
// After an error nothing stays held. Hybrid pins a connection for each name; more names than the pool has connections are
// refused with an *UnsupportedError at once.
func (c *Client) AcquireAll(ctx context.Context, names []string, opts ...AcquireOption) (Leases, error) {
	names, config, err := c.admitAll(names, opts)
	if err != nil {
		return nil, err
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.end()
	if r, ok := c.backend.(reserver); ok {
		reserving, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.life, cancel)()
		if config.reserved, err = r.reserve(reserving, len(names)); err != nil {
			if c.life.Err() != nil {
				return nil, ErrClosed
			}
			return nil, err
		}
		defer config.reserved.end()
	}
	first := names[0]
	for {
		l, err := c.wait(ctx, []string{first}, config)
		if err != nil {
			return nil, err
		}
		leases := Leases{l}
		var held *HeldError
		for _, name := range names {
			if name == first {
				continue
			}
			l, _, err := c.tryOnce(ctx, []string{name}, config, false)
			if err == nil {
				leases = append(leases, l)
				continue
			}
			c.giveBack(ctx, leases)
			if !errors.As(err, &held) {
				return nil, err
			}
			first = name
			break
		}
		if held == nil {
			slices.SortFunc(leases, func(a, b *Lease) int { return strings.Compare(a.term.Name, b.term.Name) })
			if err := leases.lost(); err != nil { // one of the first, while the last were acquired
				c.giveBack(ctx, leases)
				return nil, err
			}
			return leases, nil
		}
	}
}

func (ls Leases) lost() error {
	for _, l := range ls {
		if err := l.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) giveBack(ctx context.Context, leases Leases) {
	if err := leases.Release(ctx); err != nil {
		c.log.Warn("not all leases could be given back", zap.Error(err))
	}
}

// admitAll checks what several names were given with, and returns them sorted and without repetition.
func (c *Client) admitAll(names []string, opts []AcquireOption) ([]string, leaseConfig, error) {
	if len(names) == 0 {
		return nil, leaseConfig{}, fmt.Errorf("%w: there are no names", ErrInvalidName)
	}
	for _, name := range names {
		if err := checkName(name); err != nil {
			return nil, leaseConfig{}, err
		}
	}
	names = slices.Clone(names)
	slices.Sort(names)
	config, err := c.leaseConfig(opts)
	return slices.Compact(names), config, err
}

// attemptAny makes one attempt of a backend that cannot choose among names: one name after the other, in random order.
func (c *Client) attemptAny(ctx context.Context, r Request) (Grant, error) {
	names := r.names()
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var soonest *HeldError
	for _, name := range names {
		r.Name, r.Others = name, nil
		g, err := c.backend.Acquire(ctx, r)
		var held *HeldError
		if !errors.As(err, &held) {
			return g, err
		}
		if soonest == nil || held.Remaining() < soonest.Remaining() {
			soonest = held
		}
	}
	return Grant{}, soonest
}

// waitObserved is wait for a call of its own.
func (c *Client) waitObserved(ctx context.Context, names []string, config leaseConfig) (*Lease, error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.end()
	begun := time.Now()
	l, err := c.wait(ctx, names, config)
	e := Event{Kind: EventWait, Name: names[0], Start: begun, Err: err}
	if l != nil {
		e.Name, e.Token = l.term.Name, l.term.Token
	}
	c.observe(ctx, e)
	return l, err
}
