package pglease

import (
	"context"
	"errors"
	"time"
)

// callTimeout bounds every statement of the library: what takes longer is of no use to anybody any more.
const callTimeout = 5 * time.Second

// driverGrace is how long a call waits, after its context has ended, for a driver that obeys the context: long enough
// for one that does to return, short enough that the caller's deadline still means something (T3).
const driverGrace = 100 * time.Millisecond

// call runs f on a goroutine of its own and returns when f does, or soon after ctx has ended, or the time of a statement of f
// (see limit), whichever is first: a driver may ignore its context for as long as the other side is silent. Then z is
// reported as a zombie until f returns, and late, if not nil, is given what f returned.
//
// An error of f that is none of ours becomes a *BackendError: a backend that is not this package's cannot make one.
func call[T any](ctx context.Context, c *Client, op string, z Zombie, f func(context.Context) (T, error), late func(T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	z.Since = time.Now()
	overdue := make(chan struct{}, 1)
	go func() {
		makeRoom(uint(len(op)))
		value, err := f(context.WithValue(ctx, overdueKey{}, overdue))
		done <- result{value, c.own(op, err)}
	}()
	ended := ctx.Err
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	case <-overdue:
		ended = func() error { return context.DeadlineExceeded }
	}
	grace := time.NewTimer(driverGrace)
	defer grace.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-grace.C:
	}
	notZombie := c.expectEnd(z)
	go func() {
		r := <-done
		notZombie()
		if late != nil {
			late(r.value, r.err)
		}
	}()
	var zero T
	return zero, &BackendError{Op: op, text: "the driver does not return: " + ended().Error(), cause: ended}
}

// makeRoom has a new goroutine's stack grow once, to the 16 KiB that a driver needs, and not again and again with more and more to copy on
// the way down: that was a sixth of the client's processor time in a cycle of acquire and release. What is larger would not come from the
// processor's own store of stacks any more.
//
//go:noinline
func makeRoom(at uint) byte {
	var room [12 << 10]byte
	room[at%uint(len(room))] = 1
	return room[(at+1)%uint(len(room))]
}

// overdueKey is the key of the channel by which limit tells call.
type overdueKey struct{}

// limit returns a context for one statement, which ends after d. The driver should return then; if it does not, call gives
// it up, even if the caller's context never ends (T3).
func limit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithTimeout(ctx, d)
	overdue, ok := ctx.Value(overdueKey{}).(chan struct{})
	if !ok {
		return limited, cancel
	}
	stop := context.AfterFunc(limited, func() {
		select {
		case overdue <- struct{}{}:
		default:
		}
	})
	return limited, func() { stop(); cancel() }
}

// own makes an error of a backend one of this package's.
func (c *Client) own(op string, err error) error {
	var (
		b *BackendError
		u *UnsupportedError
	)
	if err == nil || errors.As(err, &b) || errors.As(err, &u) {
		return err
	}
	for _, ours := range []error{ErrHeld, ErrLost, ErrReleased, ErrNotFound, ErrNoSchema, ErrInvalidName, ErrClosed} {
		if errors.Is(err, ours) {
			return err
		}
	}
	return newBackendError(op, err, c.redact)
}

// inBackground does f on a goroutine that Close waits for, unless Close is through with waiting already. f's context ends
// after callTimeout.
func (c *Client) inBackground(f func(context.Context)) {
	c.mu.Lock()
	counted := !c.closed || c.active > 0
	if counted {
		c.active++
	}
	c.mu.Unlock()
	go func() {
		if counted {
			defer c.end()
		}
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		f(ctx)
	}()
}

// lookInBackground does f in the background, without making Close wait for it longer than a driver that obeys takes.
func (c *Client) lookInBackground(f func(context.Context)) {
	c.inBackground(func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.life, cancel)()
		_, _ = call(ctx, c, "look", Zombie{Kind: ZombieCall}, func(ctx context.Context) (struct{}, error) {
			f(ctx)
			return struct{}{}, nil
		}, nil)
	})
}
