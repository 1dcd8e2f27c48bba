package pglease

import "context"

// leaseContext is a context that ends with a lease, and whose Err looks at the clocks: the goroutine that wakes from a
// stop first may be the user's, before any timer has run (C5).
type leaseContext struct {
	context.Context // made by context.WithCancelCause, so that derived contexts and context.Cause know it
	cancel          context.CancelCauseFunc
	lease           *Lease
}

func newLeaseContext(parent context.Context, l *Lease) *leaseContext {
	ctx, cancel := context.WithCancelCause(parent)
	return &leaseContext{ctx, cancel, l}
}

func (c *leaseContext) Err() error {
	if err := c.lease.Err(); err != nil {
		c.cancel(err) // does nothing if another cause was first
	}
	return c.Context.Err()
}

func (c *leaseContext) String() string { return "pglease.Lease(" + c.lease.term.Name + ")" }
