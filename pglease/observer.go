package pglease

import (
	"context"
	"time"
)

// An Observer is told of what happens to a client's leases, for metrics and traces. Observe is called on the goroutine
// on which the thing happened, outside every lock; it must not block, and may be called by several goroutines at once.
// A panic in it is not recovered.
type Observer interface {
	// Observe is given the context of the call that led to the event, or that of the client's own work.
	Observe(ctx context.Context, e Event)
}

// An EventKind says what happened.
type EventKind int

// The events.
const (
	EventAcquire  EventKind = iota + 1 // an attempt to acquire ended: granted (Err nil), held (ErrHeld) or failed
	EventWait                          // a wait for a lease ended: granted (Err nil) or given up
	EventRenew                         // an attempt to renew one lease ended: renewed (Err nil) or failed
	EventLost                          // a lease was lost: Err is the *LostError
	EventRelease                       // a release ended, or Close had no time left for it (Err says so)
	EventZombie                        // something that should have ended has not for 30 s: Zombie says what
	EventWithdraw                      // a grant that nobody waited for any more was taken back, or could not be
)

func (k EventKind) String() string {
	names := [...]string{"acquire", "wait", "renew", "lost", "release", "zombie", "withdraw"}
	if k < 1 || int(k) > len(names) {
		return "unknown"
	}
	return names[k-1]
}

// An Event is one thing that happened. Fields that do not apply are zero.
type Event struct {
	Kind     EventKind
	Name     string
	Owner    string // of the client
	Token    int64
	Start    time.Time     // when it began, by the local clock
	Duration time.Duration // how long it took; of EventLost and EventRelease also see Held
	Held     time.Duration // for how long the lease had been held
	Err      error
	Zombie   ZombieKind
}

func (c *Client) observe(ctx context.Context, e Event) {
	if c.observer == nil {
		return
	}
	e.Owner = c.owner
	if !e.Start.IsZero() && e.Duration == 0 {
		e.Duration = time.Since(e.Start)
	}
	c.observer.Observe(ctx, e)
}
