package pglease

import (
	"context"
	"errors"
	"sync/atomic"
)

// Campaign has Client.Go behave as Client.Lead: wait for the lease, and campaign again after a loss.
func Campaign() GoOption { return goOption(func(o *goOptions) { o.campaign = true }) }

type goOption func(*goOptions)

func (f goOption) applyGo(o *goOptions) { f(o) }

// Singleton wraps fn so that each call of the result does what Do does: of all the workers that call it at a time, one runs
// fn, and the others get ErrHeld, skip or wait, as the options say.
func (c *Client) Singleton(name string, fn func(ctx context.Context) error, opts ...DoOption) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if fn == nil {
			return nilFunc("Singleton", name)
		}
		return c.Do(ctx, name, func(ctx context.Context, _ *Lease) error { return fn(ctx) }, opts...)
	}
}

// A Task is a function that Client.Go runs in the background.
type Task struct {
	done  chan struct{}
	err   error // set before done is closed
	stop  context.CancelFunc
	lease atomic.Pointer[Lease]
}

// Go does what Do does, or with Campaign what Lead does, on a goroutine of its own. Errors, of the options too, come from the
// Task's Wait. ctx governs the waiting and fn. A panic of fn releases the lease and goes on: as on any goroutine, it ends the
// program.
func (c *Client) Go(ctx context.Context, name string, fn func(ctx context.Context, l *Lease) error, opts ...GoOption) *Task {
	ctx, cancel := context.WithCancel(ctx)
	t := &Task{done: make(chan struct{}), stop: cancel, err: errGoexit}
	go func() {
		defer cancel()
		defer close(t.done)
		t.err = c.goTask(ctx, t, name, fn, opts)
	}()
	return t
}

// errGoexit is the error of a task whose function called runtime.Goexit, so that nothing was returned.
var errGoexit = errors.New("pglease: the function of the task called runtime.Goexit")

func (c *Client) goTask(ctx context.Context, t *Task, name string, fn func(context.Context, *Lease) error, opts []GoOption) error {
	if fn == nil {
		return nilFunc("Go", name)
	}
	o := goOptions{doOptions: doOptions{lease: c.options}}
	for _, opt := range opts {
		if opt == nil {
			return errNilOption
		}
		opt.applyGo(&o)
	}
	if o.campaign && o.wait == waitSkip {
		o.errs = append(o.errs, errors.New("pglease: Campaign contradicts SkipIfHeld"))
	}
	config, err := c.checkDo(name, o.doOptions)
	if err != nil {
		return err
	}
	watched := func(ctx context.Context, l *Lease) error {
		t.lease.Store(l)
		defer t.lease.Store(nil)
		return fn(ctx, l)
	}
	if err := c.begin(); err != nil {
		return err
	}
	defer c.end()
	if o.campaign {
		return c.campaign(ctx, name, config, watched)
	}
	return cleanStop(ctx, c.doOnce(ctx, name, o.doOptions, config, watched))
}

// Done returns a channel that is closed when the task has ended and its lease is released.
func (t *Task) Done() <-chan struct{} { return t.done }

// Wait waits for the task's end and returns what Do, or with Campaign Lead, would have returned; nil after a clean stop.
func (t *Task) Wait() error {
	<-t.done
	return t.err
}

// Stop ends the context of the task: it stops waiting, or its function is told to return. It does not wait for that.
func (t *Task) Stop() { t.stop() }

// Lease returns the lease under which the function runs now, or nil if it does not, or the lease is lost or released.
func (t *Task) Lease() *Lease {
	if l := t.lease.Load(); l != nil && l.Err() == nil {
		return l
	}
	return nil
}
