package driver_test

import (
	"errors"
	"testing"

	"github.com/pglease/pglease-go/driver_test/internal/wire"
	"github.com/pglease/pglease-go/pglease"
)

// TestLostAnswers: the connection breaks between the commit of a statement and its answer. A driver may call that
// driver.ErrBadConn (lib/pq does, for every end of file), which is no promise that nothing was done (H8, O1).
func TestLostAnswers(t *testing.T) {
	each(t, three, func(t *testing.T, e *env, k kind) {
		ctx := testContext(t)
		cut := &wire.Counter{}
		c := client(t, e.openThrough(t, k, e.dsn(), cut))
		other := client(t, e.open(t, k, e.dsn()))

		// A grant that nobody has heard of is taken back, or is the caller's lease after all.
		cut.CutNext()
		l, err := c.TryAcquire(ctx, "acquire")
		switch {
		case err == nil:
			if err := l.Renew(ctx); err != nil {
				t.Errorf("acquired in spite of a lost answer, and then: %v", err)
			}
			if err := l.Release(ctx); err != nil {
				t.Error(err)
			}
		case errors.Is(err, pglease.ErrHeld):
			t.Errorf("a try whose answer was lost is told that the lease is held, by its own ghost: %v", err)
		}
		eventually(t, "the grant to be taken back", func() bool {
			l, err := other.TryAcquire(ctx, "acquire")
			return err == nil && l.Release(ctx) == nil
		})
		anyIsTakenBack(t, e, c, other, cut)

		l, err = c.TryAcquire(ctx, "renew")
		if err != nil {
			t.Fatal(err)
		}
		cut.CutNext()
		_ = l.Renew(ctx)
		if err := errors.Join(l.Err(), l.Renew(ctx)); err != nil {
			t.Errorf("after a renewal whose answer was lost: %v", err)
		}

		// The outcome of a release is unknown, or known to be good; it is not a loss.
		cut.CutNext()
		if err := l.Release(ctx); errors.Is(err, pglease.ErrLost) {
			t.Errorf("a release whose answer was lost: %v", err)
		}
		tryOnce(t, other, "renew")
	})
}

// anyIsTakenBack: so is a grant of one of several names, also if the statement was sent again and got another of them.
func anyIsTakenBack(t *testing.T, e *env, c, other *pglease.Client, cut *wire.Counter) {
	t.Helper()
	ctx := testContext(t)
	names := []string{e.schema + " any", e.schema + " of", e.schema + " these"}
	cut.CutNext()
	l, err := c.TryAcquireAny(ctx, names)
	switch {
	case err == nil:
		mustRelease(t, l)
	case errors.Is(err, pglease.ErrHeld):
		t.Errorf("a try for any name is told that all are held: %v", err)
	}
	for _, name := range names {
		eventually(t, name+" to be free", func() bool {
			l, err := other.TryAcquire(ctx, name)
			return err == nil && l.Release(ctx) == nil
		})
	}
}
