package pglease_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/internal/fakedb"
)

func TestReleaseDuringAHangingHeartbeatReturns_O3_T3(t *testing.T) {
	for _, how := range []string{"deaf", "obedient"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
				c := open(t, db)
				end := make(chan struct{})
				defer close(end)
				l := acquire(t, c, t.Name())
				if how == "deaf" {
					server.Before(only("RenewLeases", deaf(end)))
				} else {
					server.Before(only("RenewLeases", obey))
				}
				time.Sleep(10*time.Second + time.Millisecond) // the heartbeat hangs on the kept connection
				start := time.Now()
				if err := l.Release(t.Context()); err != nil {
					t.Errorf("Release: %v", err)
				}
				took(t, "Release", start, 0)
				if row, _ := server.Row(t.Name()); row.ExpiresAt.After(time.Now()) {
					t.Errorf("the row is held for another %v", time.Until(row.ExpiresAt))
				}
			})
		})
	}
}

// A heartbeat that arrives after the release must not revive the term.
func TestAHeartbeatOvertakenByTheReleaseRevivesNothing_O3(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		l := acquire(t, c, t.Name(), pglease.WithMinHold(time.Hour))
		server.Before(only("RenewLeases", slow(2*time.Second)))
		time.Sleep(10*time.Second + time.Millisecond)
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		before, _ := server.Row(t.Name())
		time.Sleep(10 * time.Second)
		if after, _ := server.Row(t.Name()); after != before {
			t.Errorf("the row was %+v, is %+v", before, after)
		}
		if l.Err() != pglease.ErrReleased { //nolint:errorlint // exactly this one
			t.Errorf("Err: %v", l.Err())
		}
	})
}

// O3 asks for 10,000 cycles with the race detector and the goroutines back at the baseline: a bubble ends only when they are.
func TestManyCyclesOfReleaseAndHeartbeatLeaveNothing_O3(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db, pglease.WithTTL(20*time.Millisecond), pglease.WithHeartbeatInterval(time.Millisecond))
		server.Before(only("RenewLeases", slow(1500*time.Microsecond)))
		last := int64(0)
		for range 10000 {
			l := acquire(t, c, t.Name())
			if l.Token() <= last {
				t.Fatalf("token %d after %d", l.Token(), last)
			}
			last = l.Token()
			time.Sleep(1700 * time.Microsecond) // a heartbeat is in flight
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if row, _ := server.Row(t.Name()); row.ExpiresAt.After(time.Now()) {
				t.Fatalf("held after its release: %+v", row)
			}
		}
		if open, _ := server.Connections(); open > 3 {
			t.Errorf("%d connections", open)
		}
	})
}

func TestReleaseOnADoneContextTakesFiveSecondsOfItsOwn_T2(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		l := acquire(t, c, t.Name())
		server.Before(only("ReleaseLease", slow(4*time.Second)))
		if err := l.Release(ctx); err != nil {
			t.Errorf("Release: %v", err)
		}
		l = acquire(t, c, t.Name())
		server.Before(only("ReleaseLease", obey))
		start := time.Now()
		mustBe(t, "Release", l.Release(ctx), context.DeadlineExceeded)
		took(t, "Release", start, 5*time.Second)
		mustBe(t, "Err", l.Err(), pglease.ErrReleased)
		server.Before(nil)
		if err := l.Release(ctx); err != nil {
			t.Errorf("Release again after an unknown outcome: %v", err)
		}
	})
}

func TestReleaseReturnsAtItsDeadline_T3(t *testing.T) {
	tests := map[string]struct {
		timeout time.Duration // 0: no deadline
		want    time.Duration
	}{
		"with a deadline":    {2 * time.Second, 2 * time.Second},
		"without a deadline": {0, 5 * time.Second},
	}
	for what, test := range tests {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
				c := open(t, db)
				end := make(chan struct{})
				defer close(end)
				l := acquire(t, c, t.Name())
				server.Before(deaf(end))
				ctx, cancel := context.WithCancel(context.Background())
				if test.timeout > 0 {
					ctx, cancel = context.WithTimeout(context.Background(), test.timeout)
				}
				defer cancel()
				start := time.Now()
				err := l.Release(ctx)
				within(t, "Release", start, test.want, test.want+100*time.Millisecond)
				var failure *pglease.BackendError
				if !errors.As(err, &failure) || failure.Op != "release" || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Release: %#v", err)
				}
				mustBe(t, "Err", l.Err(), pglease.ErrReleased)
				<-l.Done()
			})
		})
	}
}

func TestEveryCallReturnsThoughTheDriverIsDeaf_T3_T7(t *testing.T) {
	calls := map[string]func(context.Context, *pglease.Client, *pglease.Lease) error{
		"TryAcquire": func(ctx context.Context, c *pglease.Client, _ *pglease.Lease) error {
			_, err := c.TryAcquire(ctx, "free")
			return err
		},
		"Do": func(ctx context.Context, c *pglease.Client, _ *pglease.Lease) error {
			return c.Do(ctx, "free", func(context.Context, *pglease.Lease) error { return nil })
		},
		"Get": func(ctx context.Context, c *pglease.Client, _ *pglease.Lease) error {
			_, err := c.Get(ctx, "free")
			return err
		},
		"List": func(ctx context.Context, c *pglease.Client, _ *pglease.Lease) error {
			_, err := c.List(ctx)
			return err
		},
		"ForceRelease": func(ctx context.Context, c *pglease.Client, _ *pglease.Lease) error {
			_, err := c.ForceRelease(ctx, "free")
			return err
		},
		"Renew":   func(ctx context.Context, _ *pglease.Client, l *pglease.Lease) error { return l.Renew(ctx) },
		"Release": func(ctx context.Context, _ *pglease.Client, l *pglease.Lease) error { return l.Release(ctx) },
	}
	for what, call := range calls {
		t.Run(what, func(t *testing.T) {
			for _, timeout := range []time.Duration{time.Second, time.Hour} {
				bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
					c := open(t, db)
					end := make(chan struct{})
					defer close(end)
					l := acquire(t, c, t.Name())
					server.Before(deaf(end))
					ctx, cancel := context.WithTimeout(context.Background(), timeout)
					defer cancel()
					start := time.Now()
					err := call(ctx, c, l)
					// An hour is as good as none: a statement has 5 s.
					want := min(timeout, 5*time.Second)
					within(t, what, start, want*7/10, want+200*time.Millisecond) // ForceRelease keeps time to find out who is in the way
					mustBe(t, what, err, context.DeadlineExceeded)
				})
			}
		})
	}
}

func TestAReleaseWithALostAnswerMayBeRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		l := acquire(t, c, t.Name())
		server.After(only("ReleaseLease", fail(errors.New("connection reset by peer"))))
		var failure *pglease.BackendError
		if err := l.Release(t.Context()); !errors.As(err, &failure) || errors.Is(err, pglease.ErrLost) {
			t.Errorf("Release whose answer was lost: %v", err)
		}
		server.After(nil)
		next := acquire(t, c, t.Name()) // it had taken effect
		_ = l.Release(t.Context())
		synctest.Wait()
		if row, _ := server.Row(t.Name()); row.Token != next.Token() || !row.ExpiresAt.After(time.Now()) {
			t.Errorf("a repeated release touched the successor: %+v", row)
		}
	})
}

func TestSimultaneousReleasesSendOne(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		l := acquire(t, c, t.Name())
		server.Before(only("ReleaseLease", slow(time.Second)))
		errs := make(chan error, 10)
		for range cap(errs) {
			go func() { errs <- l.Release(t.Context()) }()
		}
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if n := len(server.Sent("ReleaseLease")); n != 1 {
			t.Errorf("%d statements", n)
		}
		// A waiting one is bounded by its own context.
		l = acquire(t, c, t.Name())
		go func() { errs <- l.Release(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		mustBe(t, "the second release", l.Release(ctx), context.DeadlineExceeded)
		took(t, "the second release", start, 100*time.Millisecond)
		if err := <-errs; err != nil {
			t.Error(err)
		}
	})
}
