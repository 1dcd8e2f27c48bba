package pglease_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/internal/fakedb"
)

// The tests of this package run in testing/synctest bubbles over package fakedb: the real database/sql pool, and a driver
// that is as slow or as deaf as a test asks for. Time is exact in a bubble, and synctest fails a test that leaves a goroutine
// behind. They do not run in parallel: waiters of one name know each other across clients, but not across bubbles.

// bubble runs f in a bubble of its own, with a database of its own.
func bubble(t *testing.T, f func(t *testing.T, server *fakedb.Server, db *sql.DB)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := fakedb.New()
		db := server.Open()
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Errorf("closing the pool: %v", err)
			}
		})
		f(t, server, db)
	})
}

// open returns a client that is closed when the test ends.
func open(t *testing.T, db pglease.DB, opts ...pglease.Option) *pglease.Client {
	t.Helper()
	c, err := pglease.New(db, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func acquire(t *testing.T, c *pglease.Client, name string, opts ...pglease.AcquireOption) *pglease.Lease {
	t.Helper()
	l, err := c.TryAcquire(t.Context(), name, opts...)
	if err != nil {
		t.Fatalf("TryAcquire(%q): %v", name, err)
	}
	return l
}

// took checks how long something has taken, to the instant.
func took(t *testing.T, what string, start time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(start); got != want {
		t.Errorf("%s: after %v, want %v", what, got, want)
	}
}

// within checks that something took at least and at most so long.
func within(t *testing.T, what string, start time.Time, least, most time.Duration) {
	t.Helper()
	if got := time.Since(start); got < least || got > most {
		t.Errorf("%s: after %v, want %v to %v", what, got, least, most)
	}
}

func mustBe(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v, want %v", what, err, want)
	}
}

// only has f called for statements of one name (see fakedb.Statement.Is), and lets the others pass.
func only(name string, f func(context.Context, fakedb.Statement) error) func(context.Context, fakedb.Statement) error {
	return func(ctx context.Context, st fakedb.Statement) error {
		if !st.Is(name) {
			return nil
		}
		return f(ctx, st)
	}
}

// slow has a statement take d, if its context allows.
func slow(d time.Duration) func(context.Context, fakedb.Statement) error {
	return func(ctx context.Context, _ fakedb.Statement) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// obey has a statement hang until its context ends.
func obey(ctx context.Context, _ fakedb.Statement) error { return fakedb.Obey(ctx) }

// deaf has a statement hang, whatever its context says, until end is closed.
func deaf(end <-chan struct{}) func(context.Context, fakedb.Statement) error {
	return func(context.Context, fakedb.Statement) error { return fakedb.Ignore(end) }
}

// fail has a statement fail.
func fail(err error) func(context.Context, fakedb.Statement) error {
	return func(context.Context, fakedb.Statement) error { return err }
}

// events is an Observer that keeps what it is told.
type events struct {
	mu   sync.Mutex
	list []pglease.Event
}

func (o *events) Observe(_ context.Context, e pglease.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, e)
}

// of returns the events of a kind, 0 for all.
func (o *events) of(kind pglease.EventKind) (list []pglease.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.list {
		if kind == 0 || e.Kind == kind {
			list = append(list, e)
		}
	}
	return list
}
