package pglease_test

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/internal/fakedb"
)

func TestLeadWaitsOutAnOutageWithBackOff(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		server.Before(only("attempt", fail(fakedb.Error("57P03"))))
		led := make(chan time.Time, 1)
		done := make(chan error, 1)
		go func() {
			done <- c.Lead(t.Context(), t.Name(), func(context.Context, *pglease.Lease) error {
				led <- time.Now()
				return nil
			})
		}()
		time.Sleep(time.Hour)
		tries := server.Sent("attempt")
		longest, shortest := time.Duration(0), time.Hour
		for i := 3; i < len(tries); i++ { // campaigns, of 3 attempts at the most
			longest = max(longest, tries[i].At.Sub(tries[i-1].At))
			if i%3 == 0 {
				shortest = min(shortest, tries[i].At.Sub(tries[i-1].At))
			}
		}
		if longest > 30*time.Second || longest < 15*time.Second || shortest < 500*time.Millisecond {
			t.Errorf("pauses between campaigns of %v to %v, want from about the poll interval up to 30 s", shortest, longest)
		}
		if n := len(tries); n > 3*3600/15+30 {
			t.Errorf("%d attempts in an hour's outage", n)
		}
		server.Before(nil)
		start := time.Now()
		within(t, "leading after the outage", start, 0, 0)
		if at := (<-led).Sub(start); at > 30*time.Second {
			t.Errorf("led %v after the outage", at)
		}
		if err := <-done; err != nil {
			t.Errorf("Lead: %v", err)
		}
	})
}

// A leader whose database is away for longer than its trust is stopped, waited for, and leads again (O9).
func TestLeadCampaignsAgainAfterALoss_O9(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		ctx, cancel := context.WithCancel(t.Context())
		var running, terms atomic.Int32
		done := make(chan error, 1)
		go func() {
			done <- c.Lead(ctx, t.Name(), func(ctx context.Context, l *pglease.Lease) error {
				if running.Add(1) != 1 {
					t.Error("two terms at once")
				}
				defer running.Add(-1)
				terms.Add(1)
				<-ctx.Done()
				time.Sleep(20 * time.Second) // it drains
				return ctx.Err()
			})
		}()
		time.Sleep(time.Minute)
		for outage := range int32(3) {
			server.Before(fail(fakedb.Error("57P03")))
			time.Sleep(2 * time.Minute)
			server.Before(nil)
			time.Sleep(5 * time.Minute)
			if got := terms.Load(); got != outage+2 || running.Load() != 1 {
				t.Errorf("%d terms after %d outages, %d running", got, outage+1, running.Load())
			}
		}
		cancel()
		start := time.Now()
		if err := <-done; err != nil {
			t.Errorf("Lead after a clean stop: %v", err)
		}
		took(t, "Lead", start, 20*time.Second)
	})
}

func TestLeadReturnsWhatItsFunctionReturns(t *testing.T) {
	own := errors.New("the leader's own error")
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		for _, want := range []error{nil, own, context.Canceled, context.DeadlineExceeded, pglease.ErrLost, pglease.ErrHeld} {
			err := c.Lead(t.Context(), t.Name(), func(context.Context, *pglease.Lease) error { return want })
			if err != want { //nolint:errorlint // unwrapped
				t.Errorf("Lead: %v, want %v", err, want)
			}
		}
		if row, _ := server.Row(t.Name()); row.ExpiresAt.After(time.Now()) {
			t.Error("a leader that resigned still holds the lease")
		}
	})
}

func TestLeadStopsWithNilWhileItWaits(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c, other := open(t, db), open(t, db)
		acquire(t, other, t.Name())
		never := func(context.Context, *pglease.Lease) error { t.Error("it ran"); return nil }
		for what, before := range map[string]func(context.Context, fakedb.Statement) error{
			"held":            nil,
			"outage":          fail(fakedb.Error("57P03")),
			"obedient driver": only("attempt", obey),
		} {
			server.Before(before)
			ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
			start := time.Now()
			if err := c.Lead(ctx, t.Name(), never); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			took(t, what, start, 7*time.Second)
			cancel()
		}
		server.Before(nil)
		done := make(chan error, 1)
		go func() { done <- c.Lead(t.Context(), t.Name(), never) }()
		synctest.Wait()
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		mustBe(t, "Lead of a closed client", <-done, pglease.ErrClosed)
	})
}
