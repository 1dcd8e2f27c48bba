package pglease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// releasers is how many leases Close releases at a time.
const releasers = 8

// Close ends the client: new calls get ErrClosed, and so do those that wait for a lease. The contexts of running Do, Lead and
// Go are cancelled with the cause ErrClosed; Close waits for their functions until ctx ends, and then releases every lease
// that is still held. If ctx is done already, it takes a context of its own of 5 s.
//
// The error names what is left: functions that still run, and leases whose release failed, which expire with their TTL.
// Close must not be called by a function that it waits for. Called again, it waits for the first call, or ctx's end, and
// returns nil. It does not close the database.
func (c *Client) Close(ctx context.Context) error {
	if ctx.Err() != nil {
		fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		ctx = fresh
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		select {
		case <-c.closeDone:
		case <-ctx.Done():
		}
		return nil
	}
	c.closed = true
	c.endLife()
	if c.active == 0 {
		close(c.idle)
	}
	for t := range c.tasks {
		t.cancel(ErrClosed)
	}
	c.mu.Unlock()
	defer close(c.closeDone)

	var errs []error
	select {
	case <-c.idle:
	case <-ctx.Done():
		if running, calls := c.running(); len(running) > 0 {
			errs = append(errs, fmt.Errorf("still running under their leases: %q", running))
		} else if calls > 0 {
			errs = append(errs, fmt.Errorf("calls still under way: %d", calls))
		}
		fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		ctx = fresh
	}
	errs = append(errs, c.releaseAll(ctx)...)
	c.awaitHeartbeat(ctx)
	c.endBeats()
	if err := c.backend.Close(ctx); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("pglease: close: %w", errors.Join(errs...))
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// running names the tasks that have not ended, and counts the calls, those of the tasks included.
func (c *Client) running() (names []string, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t := range c.tasks {
		names = append(names, t.name)
	}
	slices.Sort(names)
	return names, c.active
}

// releaseAll releases what is held, and returns the failures. A lease that turns out to be lost is no failure. When ctx
// ends, the rest is left to expire: a Release of each on a context of its own could take for ever.
func (c *Client) releaseAll(ctx context.Context) (errs []error) {
	c.mu.Lock()
	leases := make(chan *Lease, len(c.leases))
	for l := range c.leases {
		leases <- l
	}
	c.mu.Unlock()
	close(leases)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range min(releasers, len(leases)) {
		wg.Go(func() {
			for l := range leases {
				err := ctx.Err()
				if err == nil {
					err = l.Release(ctx)
				} else {
					l.abandon(ctx, err)
				}
				if err != nil && !errors.Is(err, ErrLost) {
					mu.Lock()
					errs = append(errs, fmt.Errorf("not released, held until its TTL ends: %q: %w", l.term.Name, err))
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return errs
}
