package pglease_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/internal/fakedb"
)

// Design section 9: 1,000 waiters in one process on one name are 1 connection and 1 statement a second at the most.
func TestAThousandWaitersAreOne_O10(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		holder, c := open(t, db), open(t, db)
		l := acquire(t, holder, t.Name())
		server.Forget()
		base := runtime.NumGoroutine()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		const n = 1000
		errs := make(chan error, n)
		for range n {
			go func() { _, err := c.Acquire(ctx, t.Name()); errs <- err }()
		}
		start := time.Now()
		inUse := 0
		for range 300 {
			time.Sleep(time.Second)
			inUse = max(inUse, db.Stats().InUse)
		}
		if more := runtime.NumGoroutine() - base; more > n+20 {
			t.Errorf("%d goroutines for %d waiters", more, n)
		}
		tries := server.Sent("attempt")
		if perSecond := float64(len(tries)) / time.Since(start).Seconds(); perSecond > 1 || perSecond < 0.5 {
			t.Errorf("%.2f statements a second", perSecond)
		}
		if open, _ := server.Connections(); open > 2 {
			t.Errorf("%d connections open, want the holder's and the waiters'", open)
		}
		if inUse > 2 {
			t.Errorf("%d connections in use", inUse)
		}
		if l.Err() != nil {
			t.Error(l.Err())
		}
		cancel()
		for range n {
			err := <-errs
			if !errors.Is(err, context.Canceled) || !errors.Is(err, pglease.ErrHeld) {
				t.Fatalf("a waiter: %v", err)
			}
		}
	})
}

// A poller never comes more often than the interval, and not in step with others (O10).
func TestPollsAreJittered_O10(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		acquire(t, open(t, db), t.Name())
		server.Forget()
		c := open(t, db)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		_, err := c.Acquire(ctx, t.Name())
		mustBe(t, "Acquire", err, context.DeadlineExceeded)
		tries := server.Sent("attempt")
		distinct := make(map[time.Duration]bool)
		for i := 1; i < len(tries); i++ {
			pause := tries[i].At.Sub(tries[i-1].At)
			if pause < time.Second || pause > 1250*time.Millisecond {
				t.Fatalf("a pause of %v, want 1s to 1.25s", pause)
			}
			distinct[pause] = true
		}
		if len(tries) < 450 || len(distinct) < len(tries)*9/10 {
			t.Errorf("%d tries in 10 minutes, %d different pauses", len(tries), len(distinct))
		}
	})
}

func TestAWaiterSleepsUntilTheLeaseCanExpire(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		start := time.Now()
		server.Edit(t.Name(), func(*fakedb.Row) *fakedb.Row { // of a worker that has died
			return &fakedb.Row{Name: t.Name(), Owner: "dead", AcquiredAt: start, HeartbeatAt: start, ExpiresAt: start.Add(30 * time.Second)}
		})
		c := open(t, db, pglease.WithPollInterval(time.Hour))
		l, err := c.Acquire(t.Context(), t.Name())
		if err != nil {
			t.Fatal(err)
		}
		within(t, "the lease", start, 30*time.Second, 30100*time.Millisecond)
		if n := len(server.Sent("attempt")); n != 2 {
			t.Errorf("%d statements, want 2", n)
		}
		// A poll interval shorter than the TTL counts.
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		server.Edit(t.Name(), func(r *fakedb.Row) *fakedb.Row { r.ExpiresAt = start.Add(time.Minute); return r })
		time.AfterFunc(10*time.Second, func() { // an operator
			server.Edit(t.Name(), func(r *fakedb.Row) *fakedb.Row { r.ExpiresAt = time.Now(); return r })
		})
		if _, err := c.Acquire(t.Context(), t.Name(), pglease.WithPollInterval(3*time.Second)); err != nil {
			t.Fatal(err)
		}
		within(t, "the lease", start, 10*time.Second, 13750*time.Millisecond)
	})
}

// An expired row that is locked (by an open CheckTx, or by Python) is asked for as seldom as a held one.
func TestAnExpiredAndLockedRowIsNotHammered(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		start := time.Now()
		server.Edit(t.Name(), func(*fakedb.Row) *fakedb.Row {
			return &fakedb.Row{Name: t.Name(), Owner: "guarded", AcquiredAt: start, HeartbeatAt: start, ExpiresAt: start, Locked: true}
		})
		var held *pglease.HeldError
		if _, err := c.TryAcquire(t.Context(), t.Name()); !errors.As(err, &held) || !held.Expired() || held.Owner != "guarded" {
			t.Errorf("TryAcquire of a locked row: %v", err)
		}
		server.Forget()
		time.AfterFunc(time.Minute, func() { server.Lock(t.Name(), false) })
		if _, err := c.Acquire(t.Context(), t.Name()); err != nil {
			t.Fatal(err)
		}
		within(t, "the lease", start, time.Minute, time.Minute+1250*time.Millisecond)
		tries := server.Sent("attempt")
		for i := 1; i < len(tries); i++ {
			if pause := tries[i].At.Sub(tries[i-1].At); pause < time.Second {
				t.Fatalf("a pause of %v", pause)
			}
		}
	})
}

func TestWaitersAreServedInOrderAndAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		holder := open(t, db)
		c := open(t, db, pglease.WithPollInterval(time.Hour), pglease.WithTTL(2*time.Hour))
		l := acquire(t, holder, t.Name(), pglease.WithTTL(2*time.Hour))
		const n = 20
		order := make(chan int, n)
		cancelled, cancel := context.WithCancel(t.Context())
		for i := range n {
			ctx := t.Context()
			if i%5 == 2 {
				ctx = cancelled
			}
			go func() {
				l, err := c.Acquire(ctx, t.Name())
				if err == nil {
					order <- i
					time.Sleep(time.Second)
					err = l.Release(t.Context())
				} else if errors.Is(err, context.Canceled) {
					err = nil
				}
				if err != nil {
					t.Errorf("waiter %d: %v", i, err)
				}
			}()
			synctest.Wait()
		}
		cancel() // some leave the queue
		synctest.Wait()
		start := time.Now()
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []int
		for range n - n/5 {
			got = append(got, <-order)
		}
		if !slices.IsSorted(got) {
			t.Errorf("order %v", got)
		}
		took(t, "the last one's lease", start, time.Duration(n-n/5-1)*time.Second)
		time.Sleep(2 * time.Second)
	})
}

func TestAReleaseWakesWaitersOfOtherClients(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		otherPool := server.Open()
		defer func() { _ = otherPool.Close() }()
		opts := []pglease.Option{pglease.WithPollInterval(time.Hour), pglease.WithTTL(2 * time.Hour)}
		for what, end := range map[string]func(*pglease.Client, *pglease.Lease) error{
			"Release": func(_ *pglease.Client, l *pglease.Lease) error { return l.Release(t.Context()) },
			"Close":   func(c *pglease.Client, _ *pglease.Lease) error { return c.Close(t.Context()) },
			"ForceRelease": func(c *pglease.Client, _ *pglease.Lease) error {
				_, err := c.ForceRelease(t.Context(), t.Name())
				return err
			},
		} {
			holder := open(t, db, opts...)
			l := acquire(t, holder, t.Name())
			got := make(chan error, 1)
			go func() {
				next, err := open(t, otherPool, opts...).Acquire(t.Context(), t.Name())
				if err == nil {
					err = next.Release(t.Context())
				}
				got <- err
			}()
			synctest.Wait()
			start := time.Now()
			if err := end(holder, l); err != nil {
				t.Fatal(err)
			}
			if err := <-got; err != nil {
				t.Errorf("the waiter after %s: %v", what, err)
			}
			took(t, "the waiter's lease after "+what, start, 0)
		}
	})
}
