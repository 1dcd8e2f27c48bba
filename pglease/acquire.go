package pglease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/pglease/pglease-go/pglease/internal/backoff"
)

// TryAcquire makes one attempt to acquire the lease of name, and does not wait for its holder.
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
	return c.tryOnce(ctx, name, config)
}

// admit checks what an acquire was given. It does no I/O.
func (c *Client) admit(name string, opts []AcquireOption) (leaseConfig, error) {
	if err := checkName(name); err != nil {
		return leaseConfig{}, err
	}
	return c.leaseConfig(opts)
}

// tryOnce makes one attempt, and a lease of a grant.
func (c *Client) tryOnce(ctx context.Context, name string, config leaseConfig) (l *Lease, err error) {
	begun := time.Now()
	defer func() {
		e := Event{Kind: EventAcquire, Name: name, Start: begun, Err: err}
		if l != nil {
			e.Token = l.term.Token
		}
		c.observe(ctx, e)
	}()
	if err := ctx.Err(); err != nil {
		return nil, &BackendError{Op: "acquire", text: err.Error(), cause: func() error { return err }, unsent: true}
	}
	request := Request{Name: name, Owner: c.owner, Attempt: c.attempt.Add(1), TTL: config.ttl, Metadata: config.metadata}
	grant, err := call(ctx, c, Zombie{Name: name, Kind: ZombieCall},
		func(ctx context.Context) (Grant, error) { return c.backend.Acquire(ctx, request) },
		func(g Grant, err error) { c.undo(request, g, err) })
	if err != nil {
		if doubtful(err) {
			c.undo(request, Grant{}, err)
		}
		return nil, err
	}
	l = c.newLease(ctx, grant, config)
	if !c.adopt(l) {
		c.discard(l)
		return nil, ErrClosed
	}
	if err := l.Err(); err != nil { // the answer took longer than the trust lasts (C7)
		return nil, &BackendError{Op: "acquire", text: fmt.Sprintf("the grant of %q came too late to be trusted", name), unsent: true}
	}
	if err := ctx.Err(); err != nil { // nobody waits for it any more
		c.discard(l)
		return nil, &BackendError{Op: "acquire", text: err.Error(), cause: func() error { return err }, unsent: true}
	}
	c.log.Debug("lease acquired", zap.String("name", name), zap.Int64("token", l.term.Token), zap.Duration("ttl", config.ttl))
	return l, nil
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
		undone, undoErr := false, error(nil)
		for n := 1; n <= 3 && !undone; n++ {
			if n > 1 && !pause(ctx, backoff.Exponential(n, 100*time.Millisecond, time.Second)) {
				break
			}
			undone, undoErr = call(ctx, c, Zombie{Name: r.Name, Token: g.Term.Token, Kind: ZombieCall},
				func(ctx context.Context) (bool, error) {
					if err == nil {
						err := c.backend.Release(ctx, g.Term, 0)
						return err == nil || errors.Is(err, ErrLost), err
					}
					return c.backend.Withdraw(ctx, r)
				}, nil)
		}
		if undone {
			wakeWaiters(r.Name)
		}
		if undone || undoErr != nil {
			c.observe(ctx, Event{Kind: EventWithdraw, Name: r.Name, Token: g.Term.Token, Start: begun, Err: undoErr})
			c.log.Debug("grant that nobody waits for taken back", zap.String("name", r.Name), zap.Bool("done", undone), zap.Error(undoErr))
		}
	})
}
