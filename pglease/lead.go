package pglease

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/pglease/pglease-go/pglease/internal/backoff"
)

// campaignLimit is the longest pause after a failure of the database, before another attempt.
const campaignLimit = 30 * time.Second

// Lead waits until the lease of name is free, runs fn while it is held, and campaigns again when it was lost, once fn has
// returned, for as long as ctx allows. A failure of the database that may pass is waited out, with a jittered pause from the
// poll interval up to 30 s.
//
// It returns what fn returns, if fn ends while the lease is held: returning is how a leader resigns. It returns nil when ctx
// has ended and fn, if it was running, has returned nil or the error of its context. It returns at once what cannot pass:
// ErrInvalidName, ErrNoSchema, *UnsupportedError, and ErrClosed when the client is closed: end ctx first for a nil. fn's context is that of Do; a panic of fn releases the lease and
// goes on.
func (c *Client) Lead(ctx context.Context, name string, fn func(ctx context.Context, l *Lease) error, opts ...AcquireOption) error {
	if fn == nil {
		return nilFunc("Lead", name)
	}
	config, err := c.admit(name, opts)
	if err != nil {
		return err
	}
	if err := c.begin(); err != nil {
		return err
	}
	defer c.end()
	return c.campaign(ctx, name, config, fn)
}

func (c *Client) campaign(ctx context.Context, name string, config leaseConfig, fn func(context.Context, *Lease) error) error {
	for failures := 0; ; {
		l, err := c.wait(ctx, []string{name}, config)
		switch {
		case ctx.Err() != nil && err != nil:
			return nil
		case err == nil:
			failures = 0
			if lost, err := c.lead(ctx, l, fn); !lost {
				return err
			} else if err != nil {
				c.log.Warn("leader ended after losing its lease, campaigning again", zap.String("name", name), zap.Error(err))
			}
		case !retryable(err):
			return err
		default:
			failures++
			wait := backoff.Exponential(failures, config.poll, max(config.poll, campaignLimit))
			c.log.Warn("campaign failed, trying again", zap.String("name", name), zap.Duration("in", wait), zap.Error(err))
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return nil
			case <-c.life.Done():
				return ErrClosed
			}
		}
	}
}

// lead runs fn for one term, and reports whether the term was lost.
func (c *Client) lead(ctx context.Context, l *Lease, fn func(context.Context, *Lease) error) (lost bool, err error) {
	err = c.runTask(ctx, l, func(ctx context.Context) error {
		err := fn(ctx, l)
		lost = errors.Is(l.Err(), ErrLost)
		return err
	})
	if lost && ctx.Err() == nil {
		return true, err
	}
	if c.isClosed() && (err == nil || errors.Is(err, context.Canceled)) {
		return false, ErrClosed
	}
	return false, cleanStop(ctx, err)
}

// cleanStop is the outcome of a leader that returned err: nothing, if it only did what its context told it to.
func cleanStop(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}
