package pgleasetest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// A Harness is how the suite reaches one store of leases. The functions may be called by several goroutines at once.
type Harness struct {
	// NewClient returns a client whose leases are in the store, configured by opts. Two calls return two clients that
	// contend with each other. The suite closes them.
	NewClient func(t *testing.T, opts ...pglease.Option) *pglease.Client

	// Expire ends the TTL of the term that name is in, behind its holder's back: it sets the row's expires_at to now.
	Expire func(t *testing.T, name string)

	// Delete deletes the row of name, held or not, behind its holder's back.
	Delete func(t *testing.T, name string)

	// Begin begins a transaction on the store's database and rolls it back when t ends, unless it has ended before.
	// nil if the backend's Check ignores its transaction: then nobody is expected to be held off by one.
	Begin func(t *testing.T) *sql.Tx

	// Mode is what Info.Mode says of a held lease. Default ModeTable.
	Mode pglease.Mode
}

// Run checks that a backend, under whole clients, keeps the promises of package pglease. It calls open once. The store
// may contain other rows, but they must be of no use to anybody: the suite deletes expired ones. It takes some seconds.
//
// Each subtest is named by the promise that it checks, and by the hazard (of the project's list) that endangers it.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	h := open(t)
	if h.Mode == "" {
		h.Mode = pglease.ModeTable
	}
	s := &suite{Harness: h, run: rand.Text()[:10]}
	// These concern all rows, and disturb those who expect a released row to be there: before the parallel ones.
	for _, p := range wholeStorePromises {
		t.Run(p.name, func(t *testing.T) { p.check(t, s) })
	}
	for _, p := range promises() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.check(t, s)
		})
	}
}

// A promise is one subtest.
type promise struct {
	name  string
	check func(t *testing.T, s *suite)
}

func promises() (all []promise) {
	for _, theme := range [][]promise{
		acquirePromises, namePromises, waitPromises, termPromises, signalPromises, operatePromises, taskPromises,
		leadPromises, manyPromises, closePromises, fencePromises, contentionPromises,
	} {
		all = append(all, theme...)
	}
	return all
}

type suite struct {
	Harness
	run string // tells the names of this run from those of others on the same store
}

// patience is how long anything may take that should happen at once, or within an interval that the subtest has set to
// less. It is only ever used up by a failure.
const patience = 15 * time.Second

// The TTL of most leases is so long that none ends for want of a heartbeat, however slow the machine.
const longTTL = 5 * time.Minute

// name returns a name that nobody else uses.
func (s *suite) name(t *testing.T) string {
	t.Helper()
	what := t.Name()[strings.LastIndexByte(t.Name(), '/')+1:]
	return s.run + "/" + what[:min(len(what), 100)] + "/" + rand.Text()[:8]
}

// client returns a client that is closed when t ends.
func (s *suite) client(t *testing.T, opts ...pglease.Option) *pglease.Client {
	t.Helper()
	opts = append([]pglease.Option{pglease.WithTTL(longTTL), pglease.WithPollInterval(50 * time.Millisecond)}, opts...)
	c := s.NewClient(t, opts...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("closing a client after the test: %v", err)
		}
	})
	return c
}

// patient returns a context that ends, with a failure of whoever waits on it, after patience.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// acquire waits for the lease, as it must after a term that was not released: a hybrid holder may have to be told first.
func acquire(t *testing.T, c *pglease.Client, name string, opts ...pglease.AcquireOption) *pglease.Lease {
	t.Helper()
	l, err := c.Acquire(patient(t), name, opts...)
	if err != nil {
		t.Fatalf("Acquire(%q): %v", name, err)
	}
	return l
}

// try acquires a lease that must be free at once.
func try(t *testing.T, c *pglease.Client, name string, opts ...pglease.AcquireOption) *pglease.Lease {
	t.Helper()
	l, err := c.TryAcquire(patient(t), name, opts...)
	if err != nil {
		t.Fatalf("TryAcquire(%q) of a free lease: %v", name, err)
	}
	return l
}

func release(t *testing.T, l *pglease.Lease) {
	t.Helper()
	if err := l.Release(patient(t)); err != nil {
		t.Fatalf("Release of %q: %v", l.Name(), err)
	}
}

// mustBeHeld checks that name is not to be had, and returns who stands in the way.
func mustBeHeld(t *testing.T, c *pglease.Client, name string) *pglease.HeldError {
	t.Helper()
	l, err := c.TryAcquire(patient(t), name)
	if l != nil || !errors.Is(err, pglease.ErrHeld) {
		t.Fatalf("TryAcquire(%q) of a held lease: %v, %v; want ErrHeld", name, l, err)
	}
	var held *pglease.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("TryAcquire(%q) of a held lease: %T, want a *HeldError", name, err)
	}
	return held
}

// await waits for something that should happen soon.
func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v = <-c:
	case <-timer.C:
		t.Fatalf("%s: not after %v", what, patience)
	}
	return v
}

// mustBe checks an error.
func mustBe(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v; want %v", what, err, want)
	}
}

// mustBeLost checks that err is a *LostError about l.
func mustBeLost(t *testing.T, what string, err error, l *pglease.Lease) {
	t.Helper()
	var lost *pglease.LostError
	if !errors.As(err, &lost) || !errors.Is(err, pglease.ErrLost) {
		t.Fatalf("%s: %v; want a *LostError", what, err)
	}
	if lost.Name != l.Name() || lost.Token != l.Token() || lost.Reason == "" {
		t.Fatalf("%s: %+v; want one about %q, token %d, with a reason", what, lost, l.Name(), l.Token())
	}
}

// A recorder is an Observer that hands out what it is told.
type recorder struct{ events chan pglease.Event }

func newRecorder() recorder { return recorder{make(chan pglease.Event, 10000)} }

func (r recorder) Observe(_ context.Context, e pglease.Event) {
	select {
	case r.events <- e:
	default: // the subtest has seen enough
	}
}

// next waits for the next event of that kind.
func (r recorder) next(t *testing.T, kind pglease.EventKind) pglease.Event {
	t.Helper()
	for {
		if e := await(t, "event "+kind.String(), r.events); e.Kind == kind {
			return e
		}
	}
}
