package pgleasegocron

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-co-op/gocron/v2"

	"github.com/pglease/pglease-go/pglease"
)

// ErrNotLeader is what IsLeader returns while another process leads, or nobody does yet.
var ErrNotLeader = errors.New("pgleasegocron: not the leader")

// An Elector has one scheduler of many run the jobs: the one whose process holds a lease. It is a gocron.Elector, for
// gocron.WithDistributedElector.
type Elector struct {
	task *pglease.Task
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector begins to campaign for the lease of name, in the background, until ctx ends, Stop is called or the client is
// closed; after a loss it campaigns again. It returns at once, and does no I/O itself: what is wrong is told by IsLeader.
//
// Defaults are those of the client: unless it or opts say otherwise, WithTTL 30 s, WithHeartbeatInterval TTL/3, WithSafetyMargin
// TTL/10 and 1 s at the most, WithPollInterval 1 s, WithMinHold 0. A crashed leader is followed when its TTL ends, with
// pglease.WithHybrid at once.
func NewElector(ctx context.Context, client *pglease.Client, name string, opts ...pglease.AcquireOption) *Elector {
	campaign := []pglease.GoOption{pglease.Campaign()}
	for _, opt := range opts {
		campaign = append(campaign, opt)
	}
	return &Elector{client.Go(ctx, name, lead, campaign...)}
}

// lead is all there is to leading: gocron does the work.
func lead(ctx context.Context, _ *pglease.Lease) error {
	<-ctx.Done()
	return nil
}

// IsLeader returns nil while this process holds the lease. It does no I/O: it looks at the lease and at the clock. Otherwise it
// returns ErrNotLeader, joined with the reason if the campaign has ended for good: with pglease.ErrNoSchema, say, or
// pglease.ErrClosed.
//
// gocron asks at the start of each run and does not ask again: see the package's text on what happens when the lease is lost.
func (e *Elector) IsLeader(context.Context) error {
	if e.task.Lease() != nil {
		return nil
	}
	select {
	case <-e.task.Done():
		if err := e.task.Wait(); err != nil {
			return fmt.Errorf("%w: %w", ErrNotLeader, err)
		}
	default:
	}
	return ErrNotLeader
}

// Lease returns the lease while this process leads, or nil. A job keeps the one that it began with: after a loss there may be another.
func (e *Elector) Lease() *pglease.Lease { return e.task.Lease() }

// Stop resigns: it ends the campaign, releases the lease if it is held, and waits for that until ctx ends. It returns ctx's error
// if that was first, and otherwise the error with which the campaign ended, which is nil if all went well. Stop the scheduler
// first, or its jobs run on without a lease.
func (e *Elector) Stop(ctx context.Context) error {
	e.task.Stop()
	select {
	case <-e.task.Done():
		return e.task.Wait()
	case <-ctx.Done():
		return ctx.Err()
	}
}
