package driver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/faultproxy"
	"github.com/pglease/pglease-go/pglease"
)

const (
	silentTTL = 3 * time.Second
	lateness  = 400 * time.Millisecond // of timers and goroutines, on a loaded machine
)

// TestSilentPeer (T3): trust ends on time although the driver hangs; Release and Close return at their deadlines; the next one
// follows; what hangs is listed, and goes when the driver lets it.
func TestSilentPeer(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		proxy, err := faultproxy.Start(e.dsn())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Stop)
		db, done, err := k.open(proxy.DSN(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close(); done() })
		c, err := pglease.New(db, hybrid(pglease.WithTTL(silentTTL), pglease.WithSessionCheck(checkEvery))...)
		if err != nil {
			t.Fatal(err)
		}
		told := make(chan time.Time, 1)
		l := mustTry(t, c, e.schema, pglease.WithOnLost(func(*pglease.Lease, error) { told <- time.Now() }))
		released := mustTry(t, c, e.schema+" released", pglease.WithTTL(longTTL))
		closed := mustTry(t, c, e.schema+" closed", pglease.WithTTL(longTTL))
		got := e.waits(t, hybridClient(t, e.hybridPool(t, k, e.dsn())))

		cut := time.Now()
		if err := proxy.Silence(); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
		defer cancel()
		err = released.Release(ctx)
		if took := time.Since(begun); err == nil || !errors.Is(err, context.DeadlineExceeded) || took > 700*time.Millisecond+lateness {
			t.Errorf("a release to nobody: %v, after %v", err, took)
		}
		await(t, "the loss", l.Done())
		lost := time.Now()
		if late := lost.Sub(l.Deadline()); late > lateness || l.Err() == nil {
			t.Errorf("lost %v after the trust deadline: %v", late, l.Err())
		}
		if at := await(t, "OnLost", told); at.Sub(lost) > lateness {
			t.Errorf("OnLost came %v late", at.Sub(lost))
		}
		next := await(t, "the next holder", got)
		t.Logf("lost after %v, the next one holds after %v", lost.Sub(cut), time.Since(cut))
		if took := time.Since(cut); took > silentTTL+5*time.Second || next.AcquiredAt().Before(l.ExpiresAt()) {
			t.Errorf("the next one holds after %v, from %v; the row was held until %v", took, next.AcquiredAt(), l.ExpiresAt())
		}
		mustRelease(t, next)

		begun = time.Now()
		ctx, cancel = context.WithTimeout(context.Background(), 700*time.Millisecond)
		defer cancel()
		err = c.Close(ctx)
		// After its context has ended, Close allows what it releases and its heartbeat a moment each.
		if took := time.Since(begun); took > 700*time.Millisecond+5*time.Second+lateness {
			t.Errorf("Close returned after %v", took)
		}
		if !contains(err, closed.Name()) {
			t.Errorf("Close with a lease that cannot be released: %v", err)
		}
		if closed.Err() == nil {
			t.Error("a lease is held after Close")
		}

		if k.name == libpq.name && !testing.Short() { // pgx obeys its contexts
			found := false
			for end := time.Now().Add(30*time.Second + patience); !found && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				for _, z := range c.Zombies() {
					found = found || z.Name == released.Name() && z.Token == released.Token()
				}
			}
			t.Logf("listed %v after the cut", time.Since(cut))
			if !found {
				t.Errorf("%v after the cut, the driver's call about %q is not among the zombies: %+v", time.Since(cut), released.Name(), c.Zombies())
			}
		}
		proxy.Stop()
		if !poll(func() bool { return len(c.Zombies()) == 0 }) {
			t.Errorf("zombies that have ended: %+v", c.Zombies())
		}
		e.noLockAfterward(t)
	})
}

// noLockAfterward waits for the server to hear that its clients are gone.
func (e *env) noLockAfterward(t *testing.T) {
	t.Helper()
	eventually(t, "the server to let go", func() bool { return e.holderPID() == 0 })
}

// TestNoContextHangsOnASilentPeer (T7): calls without a deadline return, too.
func TestNoContextHangsOnASilentPeer(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		proxy, err := faultproxy.Start(e.dsn())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Stop)
		db, done, err := k.open(proxy.DSN(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close(); done() })
		c := hybridClient(t, db, pglease.WithTTL(longTTL))
		fillIdle(t, db, 8) // a new connection would be waited for as long as the pool does
		l := mustTry(t, c, e.schema)
		fresh := hybridClient(t, db, pglease.WithTTL(longTTL)) // its pre-flight is to come
		if err := proxy.Silence(); err != nil {
			t.Fatal(err)
		}
		results := make(chan error, 3)
		acquiring := context.Background()
		if k.name == pgxStdlib.name {
			// pgx pings a connection that was idle for a second before the pool gives it out: a wait for the pool, which the
			// caller's context alone limits.
			var cancel context.CancelFunc
			acquiring, cancel = context.WithTimeout(acquiring, 20*time.Second)
			defer cancel()
		}
		go func() { results <- second(c.TryAcquire(acquiring, e.schema+" another")) }()
		go func() { results <- second(fresh.TryAcquire(acquiring, e.schema+" a third")) }()
		go func() { results <- l.Release(context.Background()) }()
		limit := time.After(40 * time.Second)
		for range cap(results) {
			select {
			case err := <-results:
				if err == nil || errors.Is(err, pglease.ErrHeld) {
					t.Errorf("a call to nobody: %v", err)
				}
			case <-limit:
				t.Fatal("calls without a deadline hang")
			}
		}
		proxy.Stop()
		eventually(t, "the driver to return", func() bool { return db.Stats().InUse == 0 })
	})
}
