package pglease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/pglease/pglease-go/pglease/internal/backoff"
	"github.com/pglease/pglease-go/pglease/internal/trust"
)

// TryAcquire makes one attempt to acquire the lease of name, and does not wait for its holder. (With hybrid, if the holder's session has just ended,
// it waits for as long as that holder promised to need to hear of it, see WithTakeoverDelay, and takes the lease; and half a second at the most for
// the session of a holder that hangs, which it has ended.)
//
// If somebody holds it, the error is a *HeldError (errors.Is ErrHeld); leases are not re-entrant, so that somebody may be this
// client. A failure of the database is a *BackendError, a missing table ErrNoSchema, a bad name ErrInvalidName; none of
// them is ever ErrHeld. After an error nothing stays held: if the answer of the server was missed, a grant is taken back
// in the background.
//
// ctx limits this call, its wait for a connection of the pool included; the lease outlives it and keeps its values. Release
// the lease when the work is done.
func (c *Client) TryAcquire(ctx context.Context, name string, opts ...AcquireOption) (*Lease, error) {
	config, err := c.admit(name, opts)
	if err != nil {
		return nil, err
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.end()
	l, _, err := c.tryOnce(ctx, []string{name}, config, false)
	return l, err
}

// admit checks what an acquire was given. It does no I/O.
func (c *Client) admit(name string, opts []AcquireOption) (leaseConfig, error) {
	if err := checkName(name); err != nil {
		return leaseConfig{}, err
	}
	return c.leaseConfig(opts)
}

// tryOnce makes one attempt to get one of the names, and a lease of a grant. If wait is set, a backend that can wait does so for a moment; waited
// tells that it has.
func (c *Client) tryOnce(ctx context.Context, names []string, config leaseConfig, wait bool) (l *Lease, waited bool, err error) {
	begun := time.Now()
	defer func() {
		e := Event{Kind: EventAcquire, Name: names[0], Start: begun, Err: err}
		if l != nil {
			e.Name, e.Token = l.term.Name, l.term.Token
		}
		c.observe(ctx, e)
	}()
	if err := ctx.Err(); err != nil {
		return nil, false, &BackendError{Op: "acquire", text: err.Error(), cause: func() error { return err }, unsent: true}
	}
	request := Request{Name: names[0], Others: names[1:], Owner: c.owner, Attempt: c.attempt.Add(1), TTL: config.ttl, Metadata: config.metadata, encoded: config.encoded, reserved: config.reserved}
	type answer struct {
		Grant
		waited bool
	}
	a, err := call(ctx, c, "acquire", Zombie{Name: names[0], Kind: ZombieCall},
		func(ctx context.Context) (a answer, err error) {
			if b, ok := c.backend.(chooser); ok && len(names) > 1 {
				a.Grant, err = b.acquireAny(ctx, request)
			} else if b, ok := c.backend.(patient); ok && wait && len(names) == 1 {
				a.Grant, a.waited, err = b.acquireWaiting(ctx, request)
			} else {
				a.Grant, err = c.attemptAny(ctx, request)
			}
			return a, err
		},
		func(a answer, err error) { c.undo(request, a.Grant, err) })
	if err != nil {
		if doubtful(err) {
			c.undo(request, Grant{}, err)
		}
		return nil, a.waited, err
	}
	if !trust.Deadline(trust.At(a.Start), config.ttl, config.margin).After(trust.Now()) { // C7
		c.undo(request, a.Grant, nil)
		return nil, false, &BackendError{Op: "acquire", text: fmt.Sprintf("the grant of %q came too late to be trusted", a.Term.Name), unsent: true}
	}
	l = c.newLease(ctx, a.Grant, config)
	if !c.adopt(l) {
		c.discard(l)
		return nil, false, ErrClosed
	}
	if err := ctx.Err(); err != nil { // nobody waits for it any more
		c.discard(l)
		return nil, false, &BackendError{Op: "acquire", text: err.Error(), cause: func() error { return err }, unsent: true}
	}
	c.log.Debug("lease acquired", zap.String("name", l.term.Name), zap.Int64("token", l.term.Token), zap.Duration("ttl", config.ttl))
	return l, false, nil
}

// discard releases a lease that nobody will see, in the background.
func (c *Client) discard(l *Lease) {
	c.inBackground(func(ctx context.Context) {
		err := l.Release(ctx)
		c.observe(ctx, Event{Kind: EventWithdraw, Name: l.term.Name, Token: l.term.Token, Start: l.began, Err: err})
	})
}

// undo takes back what an attempt may have been granted after its caller has gone (H8): the term, if the answer has come
// late; or whatever the row says of the attempt, if the answer is lost. In the second case the server may still be
// executing the statement, so one look is not enough.
func (c *Client) undo(r Request, g Grant, err error) {
	if err != nil && !doubtful(err) {
		return
	}
	c.inBackground(func(ctx context.Context) {
		begun := time.Now()
		name := r.Name
		if err == nil {
			name = g.Term.Name // of several
		}
		undone, undoErr := false, error(nil)
		for n := 1; n <= 3 && !undone; n++ {
			if n > 1 && !pause(ctx, backoff.Exponential(n, 100*time.Millisecond, time.Second)) {
				break
			}
			undone, undoErr = call(ctx, c, "withdraw", Zombie{Name: name, Token: g.Term.Token, Kind: ZombieCall},
				func(ctx context.Context) (bool, error) {
					if err == nil {
						err := c.backend.Release(ctx, g.Term, 0)
						if errors.Is(err, ErrLost) { // taken back already
							err = nil
						}
						return err == nil, err
					}
					return c.backend.Withdraw(ctx, r)
				}, nil)
		}
		if undone {
			for _, name := range r.names() {
				c.wakeWaiters(name)
			}
		}
		if undone || undoErr != nil {
			c.observe(ctx, Event{Kind: EventWithdraw, Name: name, Token: g.Term.Token, Start: begun, Err: undoErr})
			c.log.Debug("grant that nobody waits for taken back", zap.String("name", name), zap.Bool("done", undone), zap.Error(undoErr))
		}
	})
}
