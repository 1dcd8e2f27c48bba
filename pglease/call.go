package pglease

import (
	"context"
	"time"
)

// callTimeout bounds every statement of the library: what takes longer is of no use to anybody any more.
const callTimeout = 5 * time.Second

// driverGrace is how long a call waits, after its context has ended, for a driver that obeys the context: long enough
// for one that does to return, short enough that the caller's deadline still means something (T3).
const driverGrace = 100 * time.Millisecond

// call runs f on a goroutine of its own and returns when f does, or soon after ctx has ended, whichever is first: a
// driver may ignore its context for as long as the other side is silent. Then z is reported as a zombie until f returns,
// and late, if not nil, is given what f returned.
func call[T any](ctx context.Context, c *Client, z Zombie, f func(context.Context) (T, error), late func(T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	z.Since = time.Now()
	go func() {
		value, err := f(ctx)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(driverGrace)
	defer grace.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-grace.C:
	}
	ended := c.expectEnd(z)
	go func() {
		r := <-done
		ended()
		if late != nil {
			late(r.value, r.err)
		}
	}()
	var zero T
	return zero, &BackendError{Op: string(z.Kind), text: "the driver does not return: " + ctx.Err().Error(), cause: ctx.Err}
}
