package pglease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Do acquires the lease of name, runs fn while it is held, and releases it.
//
// If somebody else holds the lease, Do returns a *HeldError (errors.Is ErrHeld); with SkipIfHeld it returns nil, with Wait or
// WaitFor it waits. Every other error of acquiring is TryAcquire's, or Acquire's if it waits; fn has not run then.
//
// ctx governs the waiting and fn. The context of fn ends when ctx does, when the lease is lost (context.Cause is the
// *LostError), or when the client is closed (ErrClosed), whichever is first. Do waits for fn even so: fn should return
// soon after its context has ended, since another may have the lease by then. It returns fn's error, joined with the
// *LostError if the lease was lost, and with a *BackendError if the outcome of the release is unknown. If fn panics, the lease
// is released and the panic goes on.
func (c *Client) Do(ctx context.Context, name string, fn func(ctx context.Context, l *Lease) error, opts ...DoOption) error {
	if fn == nil {
		return nilFunc("Do", name)
	}
	o := doOptions{lease: c.options}
	for _, opt := range opts {
		if opt == nil {
			return errNilOption
		}
		opt.applyDo(&o)
	}
	config, err := c.checkDo(name, o)
	if err != nil {
		return err
	}
	if err := c.begin(); err != nil {
		return err
	}
	defer c.end()
	return c.doOnce(ctx, name, o, config, fn)
}

func nilFunc(call, name string) error {
	return fmt.Errorf("pglease: %s of %q: the function is nil", call, name)
}

// checkDo completes what Do or Go was given, or says what is wrong with it. It does no I/O.
func (c *Client) checkDo(name string, o doOptions) (leaseConfig, error) {
	if err := errors.Join(o.errs...); err != nil {
		return leaseConfig{}, err
	}
	if err := checkName(name); err != nil {
		return leaseConfig{}, err
	}
	return o.lease.config()
}

// doOnce acquires as the options say, runs fn and releases.
func (c *Client) doOnce(ctx context.Context, name string, o doOptions, config leaseConfig, fn func(context.Context, *Lease) error) error {
	l, err := c.acquireFor(ctx, name, o, config)
	if err != nil {
		if o.wait == waitSkip && errors.Is(err, ErrHeld) {
			return nil
		}
		return err
	}
	return c.runTask(ctx, l, func(ctx context.Context) error { return fn(ctx, l) })
}

// acquireFor tries or waits, as the options say.
func (c *Client) acquireFor(ctx context.Context, name string, o doOptions, config leaseConfig) (*Lease, error) {
	if o.wait != waitFor {
		l, _, err := c.tryOnce(ctx, []string{name}, config, false)
		return l, err
	}
	if o.limit == 0 {
		return c.wait(ctx, []string{name}, config)
	}
	limited, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	l, err := c.wait(limited, []string{name}, config)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		// The limit is not ctx's deadline: what the caller wants to know is why it was reached.
		var held *HeldError
		if errors.As(err, &held) {
			return nil, held
		}
		return nil, fmt.Errorf("pglease: %q was not acquired within %v: %w", name, o.limit, err)
	}
	return l, err
}

// Do runs fn under the lease and releases it afterwards: the context of fn ends with ctx and with the lease. Loss, panic and
// errors are treated as Client.Do does.
func (l *Lease) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	if fn == nil {
		return nilFunc("Lease.Do", l.term.Name)
	}
	c := l.client
	if err := c.begin(); err != nil {
		return err
	}
	defer c.end()
	if err := l.Err(); err != nil {
		return err
	}
	return c.runTask(ctx, l, fn)
}

// A task is a function that runs under a lease.
type task struct {
	name   string
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// runTask runs fn under l and releases l, also if fn panics or calls runtime.Goexit: then there is nobody to return an error
// to, and the panic simply goes on through the deferred calls.
func (c *Client) runTask(ctx context.Context, l *Lease, fn func(context.Context) error) (err error) {
	taskCtx, cancel := context.WithCancelCause(ctx)
	t := &task{name: l.term.Name, cancel: cancel, done: make(chan struct{})}
	stopWatching := context.AfterFunc(l.ctx.Context, func() { cancel(context.Cause(l.ctx.Context)) })
	c.mu.Lock()
	c.tasks[t] = struct{}{}
	if c.closed {
		cancel(ErrClosed)
	}
	c.mu.Unlock()
	notZombie := c.watchTask(l)
	defer func() {
		stopWatching()
		cancel(nil)
		notZombie()
		c.mu.Lock()
		delete(c.tasks, t)
		c.mu.Unlock()
		err = joinRelease(err, l.Release(ctx))
		close(t.done)
	}()
	return fn(&leaseContext{taskCtx, cancel, l})
}

// joinRelease joins the error of a task and that of the release of its lease, without saying a loss twice.
func joinRelease(err, release error) error {
	var lost *LostError
	switch {
	case release == nil, errors.As(release, &lost) && errors.Is(err, lost):
		return err
	case err == nil:
		return release
	}
	return errors.Join(err, release)
}

// watchTask reports a zombie if the lease is lost and the returned function is not called within 30 s of that.
func (c *Client) watchTask(l *Lease) (ended func()) {
	var (
		mu        sync.Mutex
		over      bool
		notZombie = func() {}
	)
	stop := context.AfterFunc(l.ctx.Context, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over && !errors.Is(context.Cause(l.ctx.Context), ErrReleased) {
			notZombie = c.expectEnd(Zombie{Name: l.term.Name, Token: l.term.Token, Kind: ZombieTask, Since: time.Now()})
		}
	})
	return func() {
		stop()
		mu.Lock()
		defer mu.Unlock()
		over = true
		notZombie()
	}
}
