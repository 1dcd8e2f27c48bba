package pgleasetest

import (
	"context"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

var signalPromises = []promise{
	{"a release closes Done, Err is ErrReleased, OnLost does not run", releaseSignals},
	{"a loss is told by Err, Done, the context and OnLost", lossSignals},
	{"a heartbeat finds a loss by itself O5", heartbeatFindsLoss},
	{"Release works on a done context T2", releaseOnDoneContext},
}

func releaseSignals(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	lost := make(chan error, 1)
	l := try(t, c, name, pglease.WithOnLost(func(_ *pglease.Lease, err error) { lost <- err }))
	derived, cancel := context.WithCancel(l.Context())
	defer cancel()
	release(t, l)
	await(t, "Done", l.Done())
	await(t, "the lease's context", l.Context().Done())
	await(t, "a context derived from it", derived.Done())
	if err := l.Err(); err != pglease.ErrReleased { //nolint:errorlint // exactly this one is promised
		t.Errorf("Err: %v, want ErrReleased", err)
	}
	if err := l.Context().Err(); err != context.Canceled { //nolint:errorlint // as context.Context demands
		t.Errorf("the context's Err: %v, want context.Canceled", err)
	}
	for _, ctx := range []context.Context{l.Context(), derived} {
		mustBe(t, "the context's cause", context.Cause(ctx), pglease.ErrReleased)
	}
	mustBe(t, "Renew", l.Renew(patient(t)), pglease.ErrReleased)
	mustBe(t, "Do", l.Do(patient(t), func(context.Context) error { return nil }), pglease.ErrReleased)
	release(t, acquire(t, s.client(t), name))
	if len(lost) > 0 {
		t.Errorf("OnLost ran for a released lease: %v", <-lost)
	}
}

func lossSignals(t *testing.T, s *suite) {
	name := s.name(t)
	type told struct {
		lease               *pglease.Lease
		err, errNow, ctxNow error
		cause               error
		done                bool
	}
	lost := make(chan told, 10)
	rec := newRecorder()
	c := s.client(t, pglease.WithObserver(rec))
	l := try(t, c, name, pglease.WithOnLost(func(l *pglease.Lease, err error) {
		tell := told{lease: l, err: err, errNow: l.Err(), ctxNow: l.Context().Err(), cause: context.Cause(l.Context())}
		select {
		case <-l.Done():
			tell.done = true
		default:
		}
		_ = l.Release(context.Background()) // may be called from here (O7)
		lost <- tell
	}))
	s.Expire(t, name)
	mustBeLost(t, "Renew", l.Renew(patient(t)), l)
	mustBeLost(t, "Err", l.Err(), l)
	await(t, "Done", l.Done())
	await(t, "the lease's context", l.Context().Done())
	mustBeLost(t, "the context's cause", context.Cause(l.Context()), l)
	tell := await(t, "OnLost", lost)
	if tell.lease != l || !tell.done || tell.ctxNow != context.Canceled { //nolint:errorlint // as context.Context demands
		t.Errorf("OnLost saw: %+v", tell)
	}
	for _, err := range []error{tell.err, tell.errNow, tell.cause} {
		mustBeLost(t, "what OnLost saw", err, l)
	}
	if e := rec.next(t, pglease.EventLost); e.Name != name || e.Token != l.Token() || e.Held <= 0 {
		t.Errorf("the event of the loss: %+v", e)
	} else {
		mustBeLost(t, "the event of the loss", e.Err, l)
	}
	if len(lost) > 0 {
		t.Error("OnLost ran twice")
	}
}

func heartbeatFindsLoss(t *testing.T, s *suite) {
	c := s.client(t, pglease.WithTTL(time.Minute), pglease.WithHeartbeatInterval(100*time.Millisecond))
	for what, end := range map[string]func(string){
		"expiry":   func(name string) { s.Expire(t, name) },
		"deletion": func(name string) { s.Delete(t, name) },
		"force release": func(name string) {
			if _, err := c.ForceRelease(patient(t), name); err != nil {
				t.Fatal(err)
			}
		},
	} {
		name := s.name(t)
		l := try(t, c, name)
		end(name)
		await(t, "Done after "+what, l.Done())
		mustBeLost(t, "Err after "+what, l.Err(), l)
	}
}

func releaseOnDoneContext(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l := try(t, c, name)
	if err := l.Release(ctx); err != nil {
		t.Errorf("Release on a cancelled context: %v", err)
	}
	release(t, try(t, c, name))
}
