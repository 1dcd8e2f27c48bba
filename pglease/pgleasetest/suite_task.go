package pgleasetest

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

var taskPromises = []promise{
	{"Do runs the function under the lease and releases it", doRuns},
	{"Do on a held lease: ErrHeld, SkipIfHeld, Wait, WaitFor", doHeld},
	{"Do releases and goes on after a panic or Goexit O8", doPanics},
	{"Do cancels the function after a loss, waits for it and joins the loss", doLoses},
	{"Do cancels the function when its context ends", doCancelled},
	{"Lease.Do runs under both contexts and releases", leaseDo},
}

var errTask = errors.New("the task's own error")

func noTask(context.Context, *pglease.Lease) error { return errors.New("the function must not run") }

func doRuns(t *testing.T, s *suite) {
	name := s.name(t)
	c, other := s.client(t), s.client(t)
	ctx := context.WithValue(patient(t), contextKey{}, "kept")
	for _, want := range []error{nil, errTask} {
		ran := 0
		err := c.Do(ctx, name, func(ctx context.Context, l *pglease.Lease) error {
			ran++
			if held := mustBeHeld(t, other, name); held.Token != l.Token() {
				t.Errorf("the function's token is %d, the row's %d", l.Token(), held.Token)
			}
			if ctx.Err() != nil || ctx.Value(contextKey{}) != "kept" {
				t.Errorf("the function's context: %v, value %v", ctx.Err(), ctx.Value(contextKey{}))
			}
			return want
		})
		if ran != 1 || err != want { //nolint:errorlint // unwrapped, since nothing was to be joined
			t.Fatalf("Do ran it %d times and returned %v, want %v", ran, err, want)
		}
		release(t, try(t, other, name))
	}
	// The function may release by itself.
	err := c.Do(ctx, name, func(ctx context.Context, l *pglease.Lease) error {
		release(t, l)
		await(t, "the function's context after its release", ctx.Done())
		mustBe(t, "its cause", context.Cause(ctx), pglease.ErrReleased)
		return nil
	})
	if err != nil {
		t.Errorf("Do of a function that released its lease: %v", err)
	}
}

func doHeld(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	l := try(t, s.client(t), name)
	mustBe(t, "Do", c.Do(patient(t), name, noTask), pglease.ErrHeld)
	if err := c.Do(patient(t), name, noTask, pglease.SkipIfHeld()); err != nil {
		t.Errorf("Do with SkipIfHeld: %v", err)
	}
	err := c.Do(patient(t), name, noTask, pglease.WaitFor(500*time.Millisecond))
	mustBe(t, "Do with WaitFor", err, pglease.ErrHeld)
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	err = c.Do(ctx, name, noTask, pglease.Wait())
	mustBe(t, "Do with Wait until a deadline", err, context.DeadlineExceeded)
	mustBe(t, "Do with Wait until a deadline", err, pglease.ErrHeld)

	for _, wait := range []pglease.DoOption{pglease.Wait(), pglease.WaitFor(patience)} {
		rec := newRecorder()
		waiter := s.client(t, pglease.WithObserver(rec))
		done := make(chan error, 1)
		go func() {
			done <- waiter.Do(patient(t), name, func(ctx context.Context, next *pglease.Lease) error {
				if next.Token() <= l.Token() || ctx.Err() != nil {
					t.Errorf("token %d after %d, context %v", next.Token(), l.Token(), ctx.Err())
				}
				return errTask
			}, wait)
		}()
		rec.next(t, pglease.EventAcquire)
		release(t, l)
		mustBe(t, "Do", await(t, "Do", done), errTask)
		l = try(t, s.client(t), name)
	}
}

func doPanics(t *testing.T, s *suite) {
	name := s.name(t)
	c, other := s.client(t), s.client(t)
	func() {
		defer func() {
			if p := recover(); p != "the task's own panic" {
				t.Errorf("recovered %v", p)
			}
		}()
		_ = c.Do(patient(t), name, func(context.Context, *pglease.Lease) error { panic("the task's own panic") })
		t.Error("Do returned although its function panicked")
	}()
	release(t, try(t, other, name))
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = c.Do(patient(t), name, func(context.Context, *pglease.Lease) error { runtime.Goexit(); return nil })
		t.Error("Do returned although its function called Goexit")
	}()
	await(t, "Goexit", gone)
	release(t, try(t, other, name))
}

func doLoses(t *testing.T, s *suite) {
	c := s.client(t)
	other := s.client(t)
	for _, own := range []error{nil, errTask} {
		name := s.name(t)
		var lease, successor *pglease.Lease
		err := c.Do(patient(t), name, func(ctx context.Context, l *pglease.Lease) error {
			lease = l
			s.Expire(t, name)
			mustBeLost(t, "Renew", l.Renew(ctx), l)
			await(t, "the function's context", ctx.Done())
			mustBeLost(t, "its cause", context.Cause(ctx), l)
			successor = acquire(t, other, name)
			return own
		})
		mustBeLost(t, "Do", err, lease)
		if own != nil {
			mustBe(t, "Do", err, own)
		}
		if err := successor.Renew(patient(t)); err != nil {
			t.Errorf("the successor after the loser's Do: %v", err)
		}
		release(t, successor)
	}
}

func doCancelled(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	cause := errors.New("the caller's own cause")
	ctx, cancel := context.WithCancelCause(context.Background())
	err := c.Do(ctx, name, func(ctx context.Context, l *pglease.Lease) error {
		cancel(cause)
		await(t, "the function's context", ctx.Done())
		mustBe(t, "its cause", context.Cause(ctx), cause)
		if l.Err() != nil {
			t.Errorf("the lease ended with the caller's context: %v", l.Err())
		}
		return ctx.Err()
	})
	mustBe(t, "Do", err, context.Canceled)
	release(t, try(t, s.client(t), name))
}

func leaseDo(t *testing.T, s *suite) {
	name := s.name(t)
	c, other := s.client(t), s.client(t)
	l := try(t, c, name)
	err := l.Do(patient(t), func(ctx context.Context) error {
		mustBeHeld(t, other, name)
		return errTask
	})
	mustBe(t, "Lease.Do", err, errTask)
	mustBe(t, "Err", l.Err(), pglease.ErrReleased)

	l = try(t, other, name)
	ctx, cancel := context.WithCancel(context.Background())
	err = l.Do(ctx, func(ctx context.Context) error {
		cancel()
		await(t, "the function's context", ctx.Done())
		return nil
	})
	if err != nil {
		t.Errorf("Lease.Do whose context was cancelled: %v", err)
	}
	l = try(t, c, name)
	err = l.Do(patient(t), func(ctx context.Context) error {
		s.Expire(t, name)
		mustBeLost(t, "Renew", l.Renew(ctx), l)
		await(t, "the function's context", ctx.Done())
		return errTask
	})
	mustBe(t, "Lease.Do", err, errTask)
	mustBeLost(t, "Lease.Do", err, l)
	mustBeLost(t, "Lease.Do of a lost lease", l.Do(patient(t), func(context.Context) error {
		t.Error("a function ran under a lost lease")
		return nil
	}), l)
	l = acquire(t, c, name)
	func() {
		defer func() { _ = recover() }()
		_ = l.Do(patient(t), func(context.Context) error { panic("the task's own panic") })
	}()
	release(t, try(t, other, name))
}
