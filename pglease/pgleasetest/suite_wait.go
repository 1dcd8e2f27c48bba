package pgleasetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

var waitPromises = []promise{
	{"a release in this process wakes a waiter at once", wokenByRelease},
	{"a waiter gets a lease that expires", waitsForExpiry},
	{"a cancelled wait is ctx.Err and ErrHeld, and leaves no ghost H8", cancelledWait},
	{"the lease outlives the context of its acquire and keeps its values T4", outlivesContext},
}

// waiting starts an Acquire and returns when it has been told that the lease is held. Its poll interval is far longer than
// a test: it can only be woken.
func waiting(t *testing.T, s *suite, ctx context.Context, name string) <-chan acquired {
	t.Helper()
	rec := newRecorder()
	c := s.client(t, pglease.WithObserver(rec), pglease.WithPollInterval(time.Hour))
	result := make(chan acquired, 1)
	go func() {
		l, err := c.Acquire(ctx, name)
		result <- acquired{l, err}
	}()
	if e := rec.next(t, pglease.EventAcquire); !errors.Is(e.Err, pglease.ErrHeld) {
		t.Fatalf("the waiter's first attempt: %v, want ErrHeld", e.Err)
	}
	return result
}

type acquired struct {
	lease *pglease.Lease
	err   error
}

func wokenByRelease(t *testing.T, s *suite) {
	name := s.name(t)
	l := try(t, s.client(t), name)
	result := waiting(t, s, patient(t), name)
	release(t, l)
	got := await(t, "the waiter's lease", result)
	if got.err != nil {
		t.Fatal(got.err)
	}
	if got.lease.Token() <= l.Token() {
		t.Errorf("token %d after %d", got.lease.Token(), l.Token())
	}
	release(t, got.lease)
}

func waitsForExpiry(t *testing.T, s *suite) {
	name := s.name(t)
	try(t, s.client(t), name)
	rec := newRecorder()
	c := s.client(t, pglease.WithObserver(rec))
	result := make(chan acquired, 1)
	go func() {
		l, err := c.Acquire(patient(t), name)
		result <- acquired{l, err}
	}()
	rec.next(t, pglease.EventAcquire)
	s.Expire(t, name)
	got := await(t, "the waiter's lease", result)
	if got.err != nil {
		t.Fatal(got.err)
	}
	if e := rec.next(t, pglease.EventWait); e.Name != name || e.Err != nil || e.Token != got.lease.Token() {
		t.Errorf("the event of the wait: %+v", e)
	}
	release(t, got.lease)
}

func cancelledWait(t *testing.T, s *suite) {
	name := s.name(t)
	l := try(t, s.client(t), name)
	ctx, cancel := context.WithCancel(context.Background())
	result := waiting(t, s, ctx, name)
	cancel()
	got := await(t, "the waiter's error", result)
	if got.lease != nil {
		t.Fatal("a cancelled wait was given a lease")
	}
	mustBe(t, "a cancelled wait", got.err, context.Canceled)
	mustBe(t, "a cancelled wait", got.err, pglease.ErrHeld)
	var held *pglease.HeldError
	if !errors.As(got.err, &held) || held.Owner != l.Owner() {
		t.Errorf("a cancelled wait does not say who holds the lease: %v", got.err)
	}
	release(t, l)
	release(t, acquire(t, s.client(t), name))

	// A deadline is told apart from a cancellation.
	l = try(t, s.client(t), name)
	ctx, cancel = context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err := s.client(t).Acquire(ctx, name)
	mustBe(t, "a wait until a deadline", err, context.DeadlineExceeded)
	release(t, l)
}

type contextKey struct{}

func outlivesContext(t *testing.T, s *suite) {
	for _, acquire := range []func(*pglease.Client, context.Context, string) (*pglease.Lease, error){
		func(c *pglease.Client, ctx context.Context, name string) (*pglease.Lease, error) {
			return c.TryAcquire(ctx, name)
		},
		func(c *pglease.Client, ctx context.Context, name string) (*pglease.Lease, error) {
			return c.Acquire(ctx, name)
		},
	} {
		ctx, cancel := context.WithCancel(context.WithValue(context.Background(), contextKey{}, "kept"))
		l, err := acquire(s.client(t), ctx, s.name(t))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := l.Renew(patient(t)); err != nil {
			t.Errorf("Renew after the acquire's context was cancelled: %v", err)
		}
		if l.Err() != nil || l.Context().Err() != nil {
			t.Errorf("the lease ended with the acquire's context: %v, %v", l.Err(), l.Context().Err())
		}
		if got := l.Context().Value(contextKey{}); got != "kept" {
			t.Errorf("the lease's context has lost a value: %v", got)
		}
		if _, limited := l.Context().Deadline(); limited {
			t.Error("the lease's context has a deadline")
		}
		release(t, l)
	}
}
