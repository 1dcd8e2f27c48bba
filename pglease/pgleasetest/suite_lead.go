package pgleasetest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

var leadPromises = []promise{
	{"a leader resigns by returning", leadResigns},
	{"a leader that lost its lease campaigns again O9", leadCampaigns},
	{"a leader stopped by its context is a success", leadStops},
	{"a leader is followed by the next", leadFollowed},
}

func leadResigns(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	for _, want := range []error{nil, errTask} {
		err := c.Lead(patient(t), name, func(context.Context, *pglease.Lease) error { return want })
		if err != want { //nolint:errorlint // the function's own
			t.Errorf("Lead: %v, want %v", err, want)
		}
		release(t, try(t, c, name))
	}
}

func leadCampaigns(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	var terms []int64
	err := c.Lead(patient(t), name, func(ctx context.Context, l *pglease.Lease) error {
		terms = append(terms, l.Token())
		if len(terms) == 3 {
			return errTask
		}
		s.Expire(t, name)
		mustBeLost(t, "Renew", l.Renew(ctx), l)
		await(t, "the leader's context", ctx.Done())
		if len(terms) == 1 {
			return ctx.Err()
		}
		return nil
	})
	mustBe(t, "Lead", err, errTask)
	if len(terms) != 3 || terms[0] >= terms[1] || terms[1] >= terms[2] {
		t.Errorf("terms %d, want 3 with rising tokens", terms)
	}
}

func leadStops(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	for _, returned := range []func(context.Context) error{
		func(ctx context.Context) error { return ctx.Err() },
		func(context.Context) error { return nil },
		context.Cause,
	} {
		ctx, cancel := context.WithCancelCause(context.Background())
		err := c.Lead(ctx, name, func(ctx context.Context, _ *pglease.Lease) error {
			cancel(errTask)
			await(t, "the leader's context", ctx.Done())
			return returned(ctx)
		})
		if err != nil {
			t.Errorf("Lead after a clean stop: %v, want nil", err)
		}
		release(t, try(t, c, name))
	}
	// While it waits, too.
	l := try(t, s.client(t), name)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := c.Lead(ctx, name, noTask); err != nil {
		t.Errorf("Lead that was stopped while it waited: %v, want nil", err)
	}
	release(t, l)
	ctx, cancel = context.WithCancel(context.Background())
	err := c.Lead(ctx, name, func(context.Context, *pglease.Lease) error { cancel(); return errTask })
	mustBe(t, "Lead of a leader that failed while it was stopped", err, errTask)
}

func leadFollowed(t *testing.T, s *suite) {
	name := s.name(t)
	var leaders atomic.Int32
	const candidates = 3
	tokens, errs := make(chan int64, candidates), make(chan error, candidates)
	for range candidates {
		c := s.client(t)
		go func() {
			errs <- c.Lead(patient(t), name, func(_ context.Context, l *pglease.Lease) error {
				if n := leaders.Add(1); n != 1 {
					t.Errorf("%d leaders at once", n)
				}
				tokens <- l.Token()
				leaders.Add(-1)
				return nil
			})
		}()
	}
	last := int64(0)
	for range candidates {
		token := await(t, "a leader", tokens)
		if token <= last {
			t.Errorf("token %d after %d", token, last)
		}
		last = token
	}
	for range candidates {
		if err := await(t, "Lead", errs); err != nil {
			t.Error(err)
		}
	}
}
