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

func TestTrustEndsOnTimeThoughTheDriverIsDeaf_T3_O4(t *testing.T) {
	for _, given := range []string{"pool", "conn"} {
		t.Run(given, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
				var d pglease.DB = db
				if given == "conn" {
					conn, err := db.Conn(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = conn.Close() })
					d = conn
				}
				end := make(chan struct{})
				c := open(t, d)
				lost := make(chan time.Time, 1)
				start := time.Now()
				l := acquire(t, c, t.Name(), pglease.WithOnLost(func(*pglease.Lease, error) { lost <- time.Now() }))
				server.Before(deaf(end)) // from here on everything hangs
				<-l.Done()
				took(t, "Done", start, 29*time.Second)
				<-l.Context().Done()
				took(t, "the context", start, 29*time.Second)
				if at := <-lost; at.Sub(start) != 29*time.Second {
					t.Errorf("OnLost after %v", at.Sub(start))
				}
				var loss *pglease.LostError
				if !errors.As(l.Err(), &loss) || loss.Reason != pglease.LossExpired || loss.Cause == nil {
					t.Errorf("Err: %#v, want LossExpired with the failure of the renewals", l.Err())
				}
				mustBe(t, "Release", l.Release(t.Context()), pglease.ErrLost)
				took(t, "Release of the lost lease", start, 29*time.Second)
				close(end)
			})
		})
	}
}

func TestTrustCountsFromTheStartOfASlowRenewal_C4(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		l := acquire(t, c, t.Name())
		start := time.Now()
		server.After(only("RenewLeases", slow(4*time.Second)))
		time.Sleep(15 * time.Second) // the beat began at 10 s and ended at 14 s
		if got := l.Deadline().Sub(start); got != 39*time.Second {
			t.Errorf("deadline after %v, want 39s: 10 s and TTL less margin", got)
		}
		server.Before(only("RenewLeases", obey))
		<-l.Done()
		took(t, "Done", start, 39*time.Second)
	})
}

func TestTrustCountsFromTheStartOfASlowGrant_C4(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		server.After(only("attempt", slow(3*time.Second)))
		c := open(t, db)
		start := time.Now()
		l := acquire(t, c, t.Name())
		took(t, "the grant", start, 3*time.Second)
		if got := l.Deadline().Sub(start); got != 29*time.Second {
			t.Errorf("deadline after %v, want 29s", got)
		}
		time.Sleep(7 * time.Second)
		synctest.Wait()
		if sent := server.Sent("RenewLeases"); len(sent) != 1 || sent[0].At.Sub(start) != 10*time.Second {
			t.Errorf("heartbeats %v, want one after 10 s", sent)
		}
	})
}

func TestAGrantThatComesTooLateIsTakenBackAndNobodyIsTold_C7_H8(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		server.After(only("attempt", slow(1900*time.Millisecond)))
		seen := new(events)
		c := open(t, db, pglease.WithObserver(seen))
		l, err := c.TryAcquire(t.Context(), t.Name(), pglease.WithTTL(2*time.Second),
			pglease.WithOnLost(func(*pglease.Lease, error) { t.Error("OnLost ran for a lease that nobody was given") }))
		var failure *pglease.BackendError
		if l != nil || !errors.As(err, &failure) {
			t.Fatalf("TryAcquire: %v, %v; want a *BackendError", l, err)
		}
		synctest.Wait()
		row, _ := server.Row(t.Name())
		if row.ExpiresAt.After(time.Now()) {
			t.Errorf("the row is held by nobody for another %v", time.Until(row.ExpiresAt))
		}
		if lost := seen.of(pglease.EventLost); len(lost) > 0 {
			t.Errorf("a loss was observed: %v", lost)
		}
	})
}

// A process that wakes from a stop runs in any order: whoever looks must see the loss, timers or not.
func TestErrLooksAtTheClocksItself_C5(t *testing.T) {
	for range 50 {
		bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
			server.Before(only("RenewLeases", fail(fakedb.Error("57P03"))))
			c := open(t, db)
			l := acquire(t, c, t.Name())
			look := map[string]func() error{"Err": l.Err, "Context().Err": l.Context().Err}
			done := make(chan struct{})
			for what, err := range look {
				go func() {
					time.Sleep(29 * time.Second) // wakes in the same instant as the timer
					if err() == nil {
						t.Errorf("%s says held at the trust deadline", what)
					}
					done <- struct{}{}
				}()
			}
			<-done
			<-done
		})
	}
}

func TestARenewalAnsweredAfterTheDeadlineDoesNotResurrect(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		end := make(chan struct{})
		c := open(t, db, pglease.WithRetry(1, time.Second))
		start := time.Now()
		l := acquire(t, c, t.Name())
		// Executed in time, answered late, by a driver that ignores its context.
		server.After(only("RenewLeases", func(context.Context, fakedb.Statement) error { <-end; return nil }))
		<-l.Done()
		took(t, "Done", start, 29*time.Second)
		close(end)
		synctest.Wait()
		mustBe(t, "Err", l.Err(), pglease.ErrLost)
		if got := l.Deadline().Sub(start); got != 29*time.Second {
			t.Errorf("the deadline was moved to %v", got)
		}
	})
}

func TestALeaseIsRenewedForAsLongAsItIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		start := time.Now()
		l := acquire(t, c, t.Name())
		time.Sleep(24*time.Hour + time.Second)
		if l.Err() != nil {
			t.Fatal(l.Err())
		}
		sent := server.Sent("RenewLeases")
		if len(sent) != 24*60*6 {
			t.Errorf("%d heartbeats in a day, want one every 10 s", len(sent))
		}
		for i, st := range sent {
			if at := st.At.Sub(start); at != time.Duration(i+1)*10*time.Second {
				t.Fatalf("heartbeat %d after %v", i+1, at)
			}
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		server.Forget()
		time.Sleep(time.Hour)
		if sent := server.Sent(""); len(sent) > 0 {
			t.Errorf("statements after the release: %v", sent)
		}
	})
}

func TestAShortTTLIsKeptInMilliseconds_C6(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db, pglease.WithTTL(15*time.Millisecond))
		start := time.Now()
		l := acquire(t, c, t.Name())
		if got := l.ExpiresAt().Sub(l.AcquiredAt()); got != 15*time.Millisecond {
			t.Errorf("TTL %v", got)
		}
		if got := l.Deadline().Sub(start); got != 13500*time.Microsecond {
			t.Errorf("deadline after %v", got)
		}
		time.Sleep(100 * time.Millisecond)
		if n := len(server.Sent("RenewLeases")); l.Err() != nil || n < 19 || n > 20 {
			t.Errorf("%d heartbeats in 100 ms, %v; want one every 5 ms", n, l.Err())
		}
	})
}

func TestAnExpiredRowIsLostAtTheNextHeartbeat_O5(t *testing.T) {
	edits := map[string]func(*fakedb.Row) *fakedb.Row{
		"expired":   func(r *fakedb.Row) *fakedb.Row { r.ExpiresAt = time.Now(); return r },
		"deleted":   func(*fakedb.Row) *fakedb.Row { return nil },
		"new token": func(r *fakedb.Row) *fakedb.Row { r.Token++; return r },
		"new owner": func(r *fakedb.Row) *fakedb.Row { r.Owner = "python"; return r },
	}
	for what, edit := range edits {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
				c := open(t, db)
				start := time.Now()
				l := acquire(t, c, t.Name())
				server.Edit(t.Name(), edit)
				after, _ := server.Row(t.Name())
				<-l.Done()
				took(t, "Done", start, 10*time.Second)
				var loss *pglease.LostError
				if !errors.As(l.Err(), &loss) || loss.Reason != pglease.LossGone {
					t.Errorf("Err: %v, want LossGone", l.Err())
				}
				if now, _ := server.Row(t.Name()); now != after {
					t.Errorf("the row was %+v, is %+v", after, now)
				}
			})
		})
	}
}
