package pgleasetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

var closePromises = []promise{
	{"Close cancels tasks with ErrClosed, waits for them and releases O6", closeWaits},
	{"Close names what is left, releases it all the same, and is idempotent", closeNames},
	{"a closed client refuses everything with ErrClosed", closedRefuses},
	{"Close ends those who wait with ErrClosed", closeEndsWaits},
}

func closeWaits(t *testing.T, s *suite) {
	plain, task, led := s.name(t), s.name(t), s.name(t)
	c, other := s.client(t), s.client(t)
	l := try(t, c, plain)
	ended := make(chan string, 3)
	errs := make(chan error, 3)
	running := make(chan struct{}, 2)
	drain := func(what string) func(context.Context, *pglease.Lease) error {
		return func(ctx context.Context, l *pglease.Lease) error {
			running <- struct{}{}
			await(t, "the context of "+what, ctx.Done())
			mustBe(t, "its cause", context.Cause(ctx), pglease.ErrClosed)
			if err := l.Err(); err != nil {
				t.Errorf("%s was given up before the work had drained: %v", what, err)
			}
			mustBeHeld(t, other, l.Name())
			ended <- what
			return ctx.Err()
		}
	}
	go func() { errs <- c.Do(context.Background(), task, drain("Do")) }()
	go func() { errs <- c.Lead(context.Background(), led, drain("Lead")) }()
	await(t, "Do or Lead", running)
	await(t, "Do and Lead", running)
	if err := c.Close(patient(t)); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if len(ended) != 2 {
		t.Errorf("Close returned before %d of 2 tasks had ended", 2-len(ended))
	}
	for range 2 {
		if err := await(t, "Do and Lead", errs); err == nil {
			t.Error("Do or Lead returned nil although it was closed")
		}
	}
	mustBe(t, "Err of a lease after Close", l.Err(), pglease.ErrReleased)
	for _, name := range []string{plain, task, led} {
		release(t, try(t, other, name))
	}
}

func closeNames(t *testing.T, s *suite) {
	stubborn, plain := s.name(t), s.name(t)
	c, other := s.client(t), s.client(t)
	l := try(t, c, plain)
	running, end, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- c.Do(context.Background(), stubborn, func(context.Context, *pglease.Lease) error {
			close(running)
			<-end
			return errTask
		})
	}()
	await(t, "Do", running)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	err := c.Close(ctx)
	if err == nil || !strings.Contains(err.Error(), stubborn) {
		t.Errorf("Close with a function that does not end: %v; want an error that names %q", err, stubborn)
	} else if strings.Contains(err.Error(), plain) {
		t.Errorf("Close names what was released: %v", err)
	}
	mustBe(t, "Err of a lease after Close", l.Err(), pglease.ErrReleased)
	release(t, try(t, other, plain))
	for range 2 {
		if err := c.Close(patient(t)); err != nil {
			t.Errorf("Close again: %v", err)
		}
	}
	close(end)
	mustBe(t, "Do", await(t, "Do", done), errTask)
	release(t, acquire(t, other, stubborn))

	// On a context that is done, Close releases all the same.
	c = s.client(t)
	try(t, c, plain)
	ctx, cancel = context.WithCancel(context.Background())
	cancel()
	if err := c.Close(ctx); err != nil {
		t.Errorf("Close on a done context: %v", err)
	}
	release(t, try(t, other, plain))
}

func closedRefuses(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	l := try(t, c, name)
	if err := c.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "Renew after Close", l.Renew(patient(t)), pglease.ErrReleased)
	if err := l.Release(patient(t)); err != nil {
		t.Errorf("Release after Close: %v", err)
	}
	ctx := patient(t)
	for what, call := range map[string]func() error{
		"TryAcquire":    func() error { _, err := c.TryAcquire(ctx, name); return err },
		"Acquire":       func() error { _, err := c.Acquire(ctx, name); return err },
		"Do":            func() error { return c.Do(ctx, name, noTask) },
		"Lead":          func() error { return c.Lead(ctx, name, noTask) },
		"Get":           func() error { _, err := c.Get(ctx, name); return err },
		"List":          func() error { _, err := c.List(ctx); return err },
		"ForceRelease":  func() error { _, err := c.ForceRelease(ctx, name); return err },
		"DeleteExpired": func() error { _, err := c.DeleteExpired(ctx, time.Hour); return err },
		"EnsureSchema":  func() error { return c.EnsureSchema(ctx) },
	} {
		mustBe(t, what+" of a closed client", call(), pglease.ErrClosed)
	}
}

func closeEndsWaits(t *testing.T, s *suite) {
	name := s.name(t)
	l := try(t, s.client(t), name)
	rec := newRecorder()
	c := s.client(t, pglease.WithObserver(rec), pglease.WithPollInterval(time.Hour))
	errs := make(chan error, 3)
	go func() { _, err := c.Acquire(context.Background(), name); errs <- err }()
	go func() { errs <- c.Do(context.Background(), name, noTask, pglease.Wait()) }()
	go func() { errs <- c.Lead(context.Background(), name, noTask) }()
	rec.next(t, pglease.EventAcquire)
	if err := c.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	for range cap(errs) {
		mustBe(t, "a wait during Close", await(t, "a wait during Close", errs), pglease.ErrClosed)
	}
	release(t, l)
	release(t, try(t, s.client(t), name))
}
