package pgleasetest_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/pgleasetest"
)

func TestMemory(t *testing.T) {
	pgleasetest.Run(t, func(*testing.T) pgleasetest.Harness {
		m := pgleasetest.NewMemory()
		return pgleasetest.Harness{
			NewClient: func(t *testing.T, opts ...pglease.Option) *pglease.Client {
				t.Helper()
				c, err := pglease.New(nil, append(opts, pglease.WithBackend(m))...)
				if err != nil {
					t.Fatal(err)
				}
				return c
			},
			Expire: func(t *testing.T, name string) {
				t.Helper()
				if !m.Expire(name) {
					t.Fatalf("%q is not held", name)
				}
			},
			Delete: func(_ *testing.T, name string) { m.Delete(name) },
		}
	})
}

func client(t *testing.T, m *pgleasetest.Memory, opts ...pglease.Option) *pglease.Client {
	t.Helper()
	c, err := pglease.New(nil, append(opts, pglease.WithBackend(m))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func TestMemoryIsSteered(t *testing.T) {
	steps := map[string]struct {
		do     func(*pgleasetest.Memory, string) bool
		reason pglease.LossReason
		after  time.Duration // the heartbeat interval is 10 s
	}{
		"Expire":  {(*pgleasetest.Memory).Expire, pglease.LossGone, 10 * time.Second},
		"Lose":    {(*pgleasetest.Memory).Lose, pglease.LossGone, 10 * time.Second},
		"Delete":  {(*pgleasetest.Memory).Delete, pglease.LossGone, 10 * time.Second},
		"Advance": {func(m *pgleasetest.Memory, _ string) bool { m.Advance(30 * time.Second); return true }, pglease.LossGone, 10 * time.Second},
		"Fail":    {func(m *pgleasetest.Memory, _ string) bool { m.Fail(io.ErrUnexpectedEOF); return true }, pglease.LossExpired, 29 * time.Second},
	}
	for what, step := range steps {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := pgleasetest.NewMemory()
				c := client(t, m)
				start := time.Now()
				l, err := c.TryAcquire(t.Context(), "x")
				if err != nil {
					t.Fatal(err)
				}
				if !step.do(m, "x") {
					t.Error("it reports that there was no term")
				}
				<-l.Done()
				var lost *pglease.LostError
				if !errors.As(l.Err(), &lost) || lost.Reason != step.reason {
					t.Errorf("lost: %v, want %q", l.Err(), step.reason)
				}
				if took := time.Since(start); took != step.after {
					t.Errorf("lost after %v, want %v", took, step.after)
				}
				m.Fail(nil)
				if next, err := c.TryAcquire(t.Context(), "x"); what != "Fail" && (err != nil || next.Token() <= l.Token()) {
					t.Errorf("the name afterwards: %v", err)
				}
			})
		})
	}
	m := pgleasetest.NewMemory()
	if m.Expire("nobody") || m.Lose("nobody") || m.Delete("nobody") {
		t.Error("a term that does not exist was ended")
	}
}

func TestMemoryDuringAnOutage(t *testing.T) {
	m := pgleasetest.NewMemory()
	c := client(t, m)
	m.Fail(io.ErrUnexpectedEOF)
	_, err := c.TryAcquire(t.Context(), "x")
	var failure *pglease.BackendError
	if !errors.As(err, &failure) || failure.Op != "acquire" || errors.Is(err, pglease.ErrHeld) {
		t.Errorf("TryAcquire during an outage: %#v, want a *BackendError", err)
	}
	if _, err := c.Get(t.Context(), "x"); !errors.As(err, &failure) || failure.Op != "get" {
		t.Errorf("Get during an outage: %#v", err)
	}
	m.Fail(pglease.ErrNoSchema) // one of the package's own stays what it is
	if _, err := c.Get(t.Context(), "x"); !errors.Is(err, pglease.ErrNoSchema) {
		t.Errorf("Get without a table: %v", err)
	}
	m.Fail(nil)
	if _, err := c.TryAcquire(t.Context(), "x"); err != nil {
		t.Errorf("TryAcquire after an outage: %v", err)
	}
}

// The same name in two bubbles at once: waiters of one must not reach into the other.
func TestMemoriesInParallelBubblesAreApart(t *testing.T) {
	for range 4 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := pgleasetest.NewMemory()
				a, b := client(t, m), client(t, m, pglease.WithPollInterval(time.Hour), pglease.WithTTL(3*time.Hour))
				for range 200 {
					l, err := a.TryAcquire(t.Context(), "x")
					if err != nil {
						t.Fatal(err)
					}
					go func() {
						time.Sleep(time.Second)
						_ = l.Release(t.Context())
					}()
					start := time.Now()
					next, err := b.Acquire(t.Context(), "x")
					if err != nil {
						t.Fatal(err)
					}
					if took := time.Since(start); took != time.Second {
						t.Errorf("woken after %v, want 1s", took)
					}
					_ = next.Release(t.Context())
				}
			})
		})
	}
}
