package pglease

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/pglease/pglease-go/pglease/internal/backoff"
	"github.com/pglease/pglease-go/pglease/internal/trust"
)

const (
	batchSize = 1000 // leases renewed by one statement at the most

	// Every so often the heartbeat looks whether the wall clock has run away from the monotonic one, which stands still
	// while the machine is suspended and the timers with it.
	sleepCheck = time.Second
	slept      = 500 * time.Millisecond
)

// A pulse is the state of a lease's heartbeat.
type pulse struct {
	due      time.Time // when it is to be sent next
	regular  time.Time // when the beat after this one is to be sent
	failures int       // of this beat
}

// heartbeat renews the leases of the client for as long as it has any, all that are due with one statement. There is one
// heartbeat goroutine for all leases, and it never waits for anything but one statement at a time, which is bounded; the
// trust deadlines do not depend on it. before is a reading of the clocks from when there was no heartbeat yet.
func (c *Client) heartbeat(before trust.Instant) {
	for {
		now := trust.Now()
		if now.Slept(before) > slept {
			c.checkClocks()
		}
		before = now

		due, sleep, ok := c.nextBeat(time.Now())
		switch {
		case !ok:
			return
		case len(due) > 0:
			c.sweep(due)
		default:
			c.purgeSometimes()
			timer := time.NewTimer(min(sleep, sleepCheck))
			select {
			case <-timer.C:
			case <-c.kick:
			}
			timer.Stop()
		}
	}
}

// awaitHeartbeat waits until the heartbeat has ended, which it does by itself when the client has no lease any more. A
// statement in its way is cancelled after a moment.
func (c *Client) awaitHeartbeat(ctx context.Context) {
	c.mu.Lock()
	ended := c.beating
	c.mu.Unlock()
	if ended == nil {
		return
	}
	defer time.AfterFunc(driverGrace, c.endBeats).Stop()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// checkClocks ends the leases whose trust a suspend has used up.
func (c *Client) checkClocks() {
	c.mu.Lock()
	leases := make([]*Lease, 0, len(c.leases))
	for l := range c.leases {
		leases = append(leases, l)
	}
	c.mu.Unlock()
	for _, l := range leases {
		_ = l.Err()
	}
}

// nextBeat returns the leases to renew now, the most urgent first; or, if there are none, for how long to sleep. ok is false
// if the client has no lease: then the heartbeat must end, and is forgotten.
//
// When one lease is due, all go along that will be within a quarter of their interval, so that leases acquired at different
// times come to share their statements.
func (c *Client) nextBeat(now time.Time) (due []*Lease, sleep time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.leases) == 0 {
		close(c.beating)
		c.beating = nil
		return nil, 0, false
	}
	c.wakeAt = now.Add(time.Hour)
	for l := range c.leases {
		if l.beat.due.Before(c.wakeAt) {
			c.wakeAt = l.beat.due
		}
	}
	if sleep = c.wakeAt.Sub(now); sleep > 0 {
		return nil, sleep, true
	}
	for l := range c.leases {
		if early := l.config.beat / 4; !l.beat.due.After(now.Add(early)) {
			due = append(due, l)
		}
	}
	slices.SortFunc(due, func(a, b *Lease) int { return a.beat.due.Compare(b.beat.due) })
	return due, 0, true
}

// sweep sends one heartbeat for each of the leases.
func (c *Client) sweep(due []*Lease) {
	for batch := range slices.Chunk(due, batchSize) {
		// In a stable order, so that two statements of one client lock rows in the same one.
		slices.SortFunc(batch, func(a, b *Lease) int { return strings.Compare(a.term.Name, b.term.Name) })
		c.sendBeat(batch)
	}
}

// sendBeat renews a batch, and settles each lease by its own answer. If the batch fails as a whole for a reason that one of
// its rows may have, its halves are tried (H6).
func (c *Client) sendBeat(batch []*Lease) {
	batch = slices.DeleteFunc(batch, func(l *Lease) bool { return l.Err() != nil })
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(c.beats, c.beatTimeout(batch))
	defer cancel()
	start := time.Now()
	results, err := c.sendRenewals(ctx, batch)
	if err != nil && len(batch) > 1 && aboutARow(err) {
		c.sendBeat(batch[:len(batch)/2])
		c.sendBeat(batch[len(batch)/2:])
		return
	}
	for i, l := range batch {
		if err == nil {
			c.beaten(l, start, l.settle(ctx, start, results[i]))
			continue
		}
		c.observe(ctx, Event{Kind: EventRenew, Name: l.term.Name, Token: l.term.Token, Start: start, Err: err})
		c.beaten(l, start, err)
	}
}

// sendRenewals makes one call of the backend.
func (c *Client) sendRenewals(ctx context.Context, batch []*Lease) ([]RenewalResult, error) {
	renewals := make([]Renewal, len(batch))
	for i, l := range batch {
		renewals[i] = Renewal{l.term, l.config.ttl}
	}
	first := batch[0].term
	return call(ctx, c, "renew", Zombie{Name: first.Name, Token: first.Token, Kind: ZombieHeartbeat},
		func(ctx context.Context) ([]RenewalResult, error) {
			results, err := c.backend.Renew(ctx, renewals)
			if err == nil && len(results) != len(renewals) {
				err = errors.New("the backend has not answered for every lease")
			}
			return results, err
		}, nil)
}

// beatTimeout leaves time for another attempt within the trust of any lease of the client, since they all wait for the one
// heartbeat goroutine; but one whose trust is nearly used up does not deprive the others of more than a quarter of its
// interval. It does not go beyond the trust of the batch.
func (c *Client) beatTimeout(batch []*Lease) time.Duration {
	c.mu.Lock()
	all := slices.Collect(maps.Keys(c.leases))
	c.mu.Unlock()
	now := trust.Now()
	left := func(l *Lease) time.Duration {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.deadline.Until(now)
	}
	timeout, most := callTimeout, time.Millisecond
	for _, l := range all {
		timeout = min(timeout, max(left(l)/2, l.config.beat/4))
	}
	for _, l := range batch {
		most = max(most, left(l))
	}
	return min(timeout, most)
}

// aboutARow reports whether a statement for many leases may have failed because of one of them. Troubles with the way to
// the server, the server as a whole, or the table as a whole are none of those.
func aboutARow(err error) bool {
	if errors.Is(err, ErrNoSchema) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	state := stateOf(err)
	return len(state) == 5 && slices.Contains([]string{"22", "23", "40", "54", "XX"}, state[:2])
}

// beaten plans the next beat of a lease whose renewal, begun at start, ended with err.
func (c *Client) beaten(l *Lease, start time.Time, err error) {
	if err != nil {
		l.mu.Lock()
		isHeld := l.state == held
		if isHeld {
			l.lastError = err
		}
		l.mu.Unlock()
		if !isHeld {
			return
		}
		c.log.Warn("heartbeat failed", zap.String("name", l.term.Name), zap.Int64("token", l.term.Token), zap.Error(err))
	}
	l.mu.Lock()
	left := l.deadline.Until(trust.Now())
	l.mu.Unlock()

	c.mu.Lock()
	defer c.mu.Unlock()
	b := &l.beat
	if b.failures == 0 {
		b.regular = start.Add(l.config.beat)
	}
	b.failures++
	switch {
	case err == nil:
		*b = pulse{due: start.Add(l.config.beat)}
	case b.failures >= c.attempts:
		*b = pulse{due: b.regular}
		// If the trust has run out by then, the next beat comes while it has not (O4).
		if soon := time.Now().Add(max(left/3, c.base)); time.Until(b.due) >= left {
			b.due = soon
		}
	default:
		wait := backoff.Exponential(b.failures, c.base, l.config.beat)
		b.due = time.Now().Add(min(wait, max(left/2, time.Millisecond)))
	}
}
