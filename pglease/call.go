package pglease

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// callTimeout bounds every statement of the library: what takes longer is of no use to anybody any more.
const callTimeout = 5 * time.Second

// driverGrace is how long a call waits, after its context has ended, for a driver that obeys the context: long enough
// for one that does to return, short enough that the caller's deadline still means something (T3).
const driverGrace = 100 * time.Millisecond

// call runs f on a goroutine of its own and returns when f does, or soon after ctx has ended, or the time of a statement of f
// (see limit) that has not returned, whichever is first: a driver may ignore its context for as long as the other side is silent. If ctx has no
// deadline, and a statement was late and has returned, what follows has another 5 s. When f is left behind, z is
// reported as a zombie until f returns, and then, if not nil, is given what f returned.
//
// An error of f that is none of ours becomes a *BackendError: a backend that is not this package's cannot make one.
func call[T any](ctx context.Context, c *Client, op string, z Zombie, f func(context.Context) (T, error), then func(T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	z.Since = time.Now()
	late := &overdue{noted: make(chan struct{}, 1)}
	go func() {
		makeRoom(uint(len(op)))
		value, err := f(context.WithValue(ctx, overdueKey{}, late))
		done <- result{value, c.own(op, err)}
	}()
	var rest <-chan time.Time // how long f may go on after a statement that was late, if ctx has no end: the next may wait for a connection
	_, ends := ctx.Deadline()
	over := false
	for hangs := false; !hangs; {
		select {
		case r := <-done:
			return r.value, r.err
		case <-ctx.Done():
		case <-rest:
			over = true
		case <-late.noted:
			if rest == nil && !ends {
				timer := time.NewTimer(callTimeout)
				defer timer.Stop()
				rest = timer.C
			}
		}
		grace := time.NewTimer(driverGrace)
		select {
		case r := <-done:
			grace.Stop()
			return r.value, r.err
		case <-grace.C:
		}
		hangs = over || ctx.Err() != nil || late.statements.Load() > 0 // or else the driver has returned, and f goes on
	}
	notZombie := c.expectEnd(z)
	go func() {
		r := <-done
		notZombie()
		if then != nil {
			then(r.value, r.err)
		}
	}()
	ended, why := ctx.Err, "the driver does not return: "
	if ctx.Err() == nil {
		ended = func() error { return context.DeadlineExceeded }
	}
	if over {
		why = "a statement had no answer in time, and what follows it takes too long: "
	}
	var zero T
	return zero, &BackendError{Op: op, text: why + ended().Error(), cause: ended}
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

// overdue is how limit tells call of statements that have not returned although their time is over.
type overdue struct {
	statements atomic.Int32
	noted      chan struct{} // has room for one
}

// overdueKey is its key.
type overdueKey struct{}

// limit returns a context for one statement, which ends after d. The driver should return then; if it does not, call gives
// it up, even if the caller's context never ends (T3).
func limit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithTimeout(ctx, d)
	late, ok := ctx.Value(overdueKey{}).(*overdue)
	if !ok {
		return limited, cancel
	}
	end, _ := limited.Deadline()
	timer := time.AfterFunc(time.Until(end), func() {
		late.statements.Add(1)
		select {
		case late.noted <- struct{}{}:
		default:
		}
	})
	return limited, sync.OnceFunc(func() {
		cancel()
		if !timer.Stop() {
			late.statements.Add(-1)
		}
	})
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

// lookInBackground does f in the background, with a context that ends when the client is closed.
func (c *Client) lookInBackground(f func(context.Context)) {
	c.inBackground(func(context.Context) {
		_, _ = call(c.life, c, "look", Zombie{Kind: ZombieCall}, func(ctx context.Context) (struct{}, error) {
			f(ctx)
			return struct{}{}, nil
		}, nil)
	})
}
