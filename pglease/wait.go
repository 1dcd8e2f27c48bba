package pglease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pglease/pglease-go/pglease/internal/backoff"
)

// Acquire waits until the lease of name is free, and acquires it.
//
// Of all who wait in this client for one name, one asks the database, the others queue behind it in order. It asks again when
// the lease can have expired, after the poll interval, or at once when the lease is released in this process. Other processes
// are not queued: when a lease becomes free, whoever asks first has it.
//
// When ctx ends, the error is ctx.Err(), and also ErrHeld (a *HeldError) if the last answer of the database was that the
// lease is held, or the *BackendError if it could not be reached. A failure that may pass is tried again with back-off; it
// ends the wait only if it is met so often as WithRetry says before the database has answered once. What cannot pass ends
// it at once: ErrNoSchema, *UnsupportedError, ErrClosed, ErrInvalidName. After an error nothing stays held, as with TryAcquire.
func (c *Client) Acquire(ctx context.Context, name string, opts ...AcquireOption) (*Lease, error) {
	config, err := c.admit(name, opts)
	if err != nil {
		return nil, err
	}
	return c.waitObserved(ctx, []string{name}, config)
}

// A line is the queue of those who wait in one client for one name. The first in it asks the database.
type line struct {
	names []string
	queue []*waiter
	next  time.Time     // when the database is to be asked next, whoever is first by then
	wake  chan struct{} // holds a token if the lease has been released in this process
	last  error         // what the database answered last
}

// A waiter is one call in a line.
type waiter struct{ first chan struct{} } // closed when it has come to the front

// wait waits for the lease of one of the names, which are sorted.
func (c *Client) wait(ctx context.Context, names []string, config leaseConfig) (*Lease, error) {
	w, ln := c.join(names)
	defer c.leave(ln, w)
	select {
	case <-w.first:
	case <-ctx.Done():
		return nil, c.giveUp(ctx, ln)
	case <-c.life.Done():
		return nil, ErrClosed
	}
	trying, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	answered := false
	_, canWait := c.backend.(patient)
	canWait = canWait && len(names) == 1
	for failures := 0; ; {
		if err := c.sleepInLine(ctx, ln); err != nil {
			return nil, err
		}
		// The first attempt does not wait, so that there soon is an answer that giveUp can tell.
		l, waited, err := c.tryOnce(trying, names, config, answered)
		delay := backoff.Stretch(config.poll)
		var held *HeldError
		switch {
		case err == nil && len(names) > 1:
			c.plan(ln, 0, nil) // another of them may be free
			return l, nil
		case err == nil:
			// For the next in line: it is this client that holds it now.
			c.plan(ln, delay, &HeldError{Info: Info{
				Name: l.term.Name, Owner: l.term.Owner, Token: l.term.Token, Mode: l.mode, Metadata: maps.Clone(config.metadata),
				AcquiredAt: l.acquiredAt, HeartbeatAt: l.acquiredAt, ObservedAt: l.acquiredAt, ExpiresAt: l.ExpiresAt(),
			}})
			return l, nil
		case ctx.Err() != nil:
			if errors.As(err, &held) { // answered in the same moment
				c.plan(ln, delay, held)
			}
			return nil, c.giveUp(ctx, ln)
		case c.life.Err() != nil:
			return nil, ErrClosed
		case errors.As(err, &held):
			waited = waited || canWait && !answered
			answered, failures = true, 0
			// An expired row that is held all the same is locked: nobody knows for how long.
			if left := held.Remaining(); waited {
				delay = 0
			} else if left > 0 {
				delay = min(delay, left+backoff.Stretch(time.Millisecond)+backoff.Stretch(min(config.poll/20, 50*time.Millisecond)))
			}
		case !retryable(err):
			return nil, err
		default:
			failures++
			if !answered && failures >= c.attempts {
				return nil, err
			}
			delay = backoff.Exponential(failures, c.base, max(config.poll, campaignLimit))
		}
		c.plan(ln, delay, err)
	}
}

// giveUp is the error of a waiter whose context has ended.
func (c *Client) giveUp(ctx context.Context, ln *line) error {
	c.mu.Lock()
	last := ln.last
	c.mu.Unlock()
	if last == nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", ctx.Err(), last)
}

// plan sets when the database is to be asked next.
func (c *Client) plan(ln *line, delay time.Duration, answer error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ln.next, ln.last = time.Now().Add(delay), answer
}

// sleepInLine waits until the database is to be asked.
func (c *Client) sleepInLine(ctx context.Context, ln *line) error {
	c.mu.Lock()
	sleep := time.Until(ln.next)
	c.mu.Unlock()
	timer := time.NewTimer(sleep)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return c.giveUp(ctx, ln)
	case <-c.life.Done():
		return ErrClosed
	case <-timer.C:
	case <-ln.wake:
	}
	if c.life.Err() != nil { // select may choose either
		return ErrClosed
	}
	return nil
}

// join puts a new waiter at the end of the line for these names.
func (c *Client) join(names []string) (*waiter, *line) {
	w := &waiter{first: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[lineKey(names)]
	if ln == nil {
		ln = &line{names: names, wake: make(chan struct{}, 1)}
		c.lines[lineKey(names)] = ln
		c.listen(ln)
	}
	ln.queue = append(ln.queue, w)
	if len(ln.queue) == 1 {
		close(w.first)
	}
	return w, ln
}

// lineKey joins names by what no name contains.
func lineKey(names []string) string { return strings.Join(names, "\x00") }

func (c *Client) leave(ln *line, w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(ln.queue, w)
	ln.queue = slices.Delete(ln.queue, i, i+1)
	switch {
	case len(ln.queue) == 0:
		delete(c.lines, lineKey(ln.names))
		c.unlisten(ln)
	case i == 0:
		close(ln.queue[0].first)
	}
}

// A place is where a name stands for one lease: a backend of the user's, or, as nil, any database. In another database it may
// be another lease; then a waiter asks once in vain.
type place struct {
	store any
	name  string
}

// listeners are the lines of all clients of this process: a release in one client wakes the waiters of another.
var listeners = struct {
	sync.Mutex
	lines map[place][]*line
}{lines: make(map[place][]*line)}

func (c *Client) listen(ln *line) {
	listeners.Lock()
	defer listeners.Unlock()
	for _, name := range ln.names {
		at := place{c.store, name}
		listeners.lines[at] = append(listeners.lines[at], ln)
	}
}

func (c *Client) unlisten(ln *line) {
	listeners.Lock()
	defer listeners.Unlock()
	for _, name := range ln.names {
		at := place{c.store, name}
		lines := slices.DeleteFunc(listeners.lines[at], func(other *line) bool { return other == ln })
		if len(lines) == 0 {
			delete(listeners.lines, at)
		} else {
			listeners.lines[at] = lines
		}
	}
}

// wakeWaiters has whoever waits for name in this process ask the database now.
func (c *Client) wakeWaiters(name string) {
	listeners.Lock()
	defer listeners.Unlock()
	for _, ln := range listeners.lines[place{c.store, name}] {
		select {
		case ln.wake <- struct{}{}:
		default:
		}
	}
}
