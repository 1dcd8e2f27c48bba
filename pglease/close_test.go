package pglease_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/internal/fakedb"
)

func TestCloseReturnsAtItsDeadlineThoughTheDriverIsDeaf_T3(t *testing.T) {
	for what, leases := range map[string]int{"one lease": 1, "a hundred leases": 100} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
				c := open(t, db)
				end := make(chan struct{})
				defer close(end)
				held := acquireMany(t, c, leases)
				server.Before(deaf(end))
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
				defer cancel()
				start := time.Now()
				err := c.Close(ctx)
				within(t, "Close", start, 3*time.Second, 3300*time.Millisecond)
				for _, l := range held {
					if err == nil || !strings.Contains(err.Error(), l.Name()) {
						t.Fatalf("Close: %v; want an error that names %q", err, l.Name())
					}
					mustBe(t, "Err", l.Err(), pglease.ErrReleased)
				}
				// Nothing is renewed any more.
				server.Forget()
				time.Sleep(time.Hour)
				if sent := server.Sent(""); len(sent) > 0 {
					t.Errorf("statements after Close: %v", sent)
				}
			})
		})
	}
}

func TestCloseOnADoneContextTakesFiveSecondsOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		end := make(chan struct{})
		defer close(end)
		acquireMany(t, c, 100)
		server.Before(deaf(end))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		start := time.Now()
		if err := c.Close(ctx); err == nil {
			t.Error("Close: nil although nothing was released")
		}
		within(t, "Close", start, 5*time.Second, 5300*time.Millisecond)
	})
}

// The function is given until the deadline; then the lease goes all the same.
func TestCloseWaitsForTasksAndReleasesAfterItsDeadline_O6(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		other := acquire(t, c, t.Name()+"/other")
		done := make(chan error, 1)
		running := make(chan struct{})
		end := make(chan struct{})
		go func() {
			done <- c.Do(context.Background(), t.Name(), func(ctx context.Context, l *pglease.Lease) error {
				close(running)
				<-ctx.Done()
				mustBe(t, "the cause", context.Cause(ctx), pglease.ErrClosed)
				<-end
				mustBe(t, "Err after Close", l.Err(), pglease.ErrReleased)
				return nil
			})
		}()
		<-running
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		start := time.Now()
		err := c.Close(ctx)
		took(t, "Close", start, time.Minute)
		if err == nil || !strings.Contains(err.Error(), t.Name()) || strings.Contains(err.Error(), other.Name()) {
			t.Errorf("Close: %v; want an error that names the function that still runs, alone", err)
		}
		if row, _ := server.Row(t.Name()); row.ExpiresAt.After(time.Now()) {
			t.Errorf("not released: %+v", row)
		}
		close(end)
		if err := <-done; err != nil {
			t.Errorf("Do: %v", err)
		}
	})
}

// While Close waits for a function to drain, its lease must be renewed (O6).
func TestCloseRenewsLeasesWhileTasksDrain_O6(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		done := make(chan error, 1)
		go func() {
			done <- c.Do(context.Background(), t.Name(), func(ctx context.Context, l *pglease.Lease) error {
				<-ctx.Done()
				time.Sleep(10 * time.Minute)
				return l.Err()
			})
		}()
		synctest.Wait()
		start := time.Now()
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		took(t, "Close", start, 10*time.Minute)
		if err := <-done; err != nil {
			t.Errorf("the lease was lost while its function drained: %v", err)
		}
	})
}

func TestCloseCancelsAHangingHeartbeatAndLeavesNoGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		acquire(t, c, t.Name())
		server.Before(only("RenewLeases", obey))
		time.Sleep(10*time.Second + time.Millisecond)
		start := time.Now()
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		within(t, "Close", start, 0, 200*time.Millisecond)
	})
}

func TestCloseAgainWaitsForTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		acquire(t, c, t.Name())
		server.Before(only("ReleaseLease", slow(2*time.Second)))
		start := time.Now()
		first := make(chan error, 1)
		go func() { first <- c.Close(context.Background()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("Close again: %v", err)
		}
		took(t, "Close again until its deadline", start, time.Second)
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("Close again: %v", err)
		}
		took(t, "Close again", start, 2*time.Second)
		if err := <-first; err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// A grant that arrives during Close is nobody's (H8).
func TestCloseTakesBackAGrantUnderWay_H8(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		server.After(only("attempt", slow(2*time.Second)))
		got := make(chan error, 1)
		go func() {
			_, err := c.TryAcquire(context.Background(), t.Name())
			got <- err
		}()
		synctest.Wait()
		start := time.Now()
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		took(t, "Close", start, 2*time.Second)
		mustBe(t, "TryAcquire", <-got, pglease.ErrClosed)
		if row, _ := server.Row(t.Name()); row.ExpiresAt.After(time.Now()) {
			t.Errorf("held by nobody: %+v", row)
		}
	})
}

func TestCloseNamesCallsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		server.Before(only("attempt", obey))
		go func() { _, _ = c.TryAcquire(context.Background(), t.Name()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := c.Close(ctx); err == nil || errors.Is(err, pglease.ErrLost) {
			t.Errorf("Close with a call under way: %v, want an error that says so", err)
		}
		time.Sleep(10 * time.Second)
	})
}

// A Close that has no time left gives up what it has not released, and an observer that counts leases hears of each.
func TestCloseTellsOfWhatItGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		var seen events
		c := open(t, db, pglease.WithObserver(&seen))
		const n = 40 // more than are released at a time
		for i := range n {
			acquire(t, c, fmt.Sprint(t.Name(), i))
		}
		server.Before(only("ReleaseLease", obey))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Close(ctx); err == nil {
			t.Error("Close had no time, and no error")
		}
		names := make(map[string]bool)
		for _, e := range seen.of(pglease.EventRelease) {
			if e.Err == nil {
				t.Errorf("%q was released", e.Name)
			}
			names[e.Name] = true
		}
		if len(names) != n {
			t.Errorf("%d ends of %d leases were observed", len(names), n)
		}
	})
}
