package pglease

import (
	"time"

	"github.com/pglease/pglease-go/pglease/internal/trust"
)

// How leases come to the heartbeat, and leave it.

// adopt hands a new lease to the heartbeat, and reports false if the client is closing.
func (c *Client) adopt(l *Lease) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	select {
	case <-l.done:
		return true // lost already, with its session; it will not be dropped again
	default:
	}
	c.leases[l] = struct{}{}
	l.beat.due = l.start.Add(l.config.beat)
	switch sooner := l.beat.due.Before(c.wakeAt); {
	case c.beating == nil && c.soon == nil: // many a lease is over before it has anything to do
		c.before = trust.Now()
		c.wakeAt = time.Now().Add(sleepCheck)
		if time.Since(c.purged) > purgeEvery {
			c.wakeAt = time.Now()
		} else if l.beat.due.Before(c.wakeAt) {
			c.wakeAt = l.beat.due
		}
		c.soon = time.AfterFunc(time.Until(c.wakeAt), c.startHeartbeat)
	case c.soon != nil && sooner:
		c.wakeAt = l.beat.due
		c.soon.Reset(time.Until(c.wakeAt))
	case sooner:
		c.kickHeartbeat()
	}
	return true
}

// startHeartbeat runs when a heartbeat may be needed.
func (c *Client) startHeartbeat() {
	c.mu.Lock()
	c.soon = nil
	if c.beating != nil || len(c.leases) == 0 {
		c.mu.Unlock()
		return
	}
	c.beating = make(chan struct{})
	before := c.before
	c.mu.Unlock()
	c.heartbeat(before)
}

// drop takes a lease that ended from the heartbeat.
func (c *Client) drop(l *Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.leases, l)
	switch {
	case len(c.leases) > 0:
	case c.soon != nil:
		c.soon.Stop()
		c.soon = nil
	default:
		c.kickHeartbeat() // it has nothing to do any more, and ends
	}
}

func (c *Client) kickHeartbeat() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}
