package pglease_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/internal/fakedb"
)

func TestABeatIsTriedThreeTimesWithBackOff_O4(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		start := time.Now()
		l := acquire(t, c, t.Name())
		server.Before(only("RenewLeases", fail(fakedb.Error("57P03"))))
		time.Sleep(15 * time.Second)
		sent := server.Sent("RenewLeases")
		if len(sent) != 3 {
			t.Fatalf("%d attempts in one beat, want 3", len(sent))
		}
		if at := sent[0].At.Sub(start); at != 10*time.Second {
			t.Errorf("first attempt after %v", at)
		}
		for i, pause := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond} {
			if got := sent[i+1].At.Sub(sent[i].At); got < pause/2 || got > pause {
				t.Errorf("pause %d: %v, want %v to %v", i+1, got, pause/2, pause)
			}
		}
		if l.Err() != nil {
			t.Fatalf("lost by a failed beat: %v", l.Err())
		}
		// The next beat is at its time, and finds everything as it was.
		server.Before(nil)
		time.Sleep(5*time.Second + time.Millisecond)
		if sent = server.Sent("RenewLeases"); len(sent) != 4 || sent[3].At.Sub(start) != 20*time.Second {
			t.Errorf("the next beat: %v", sent[3:])
		}
		if got := l.Deadline().Sub(start); got != 49*time.Second {
			t.Errorf("deadline %v after the start, want 20 s and TTL less margin", got)
		}
	})
}

func TestAnOutageIsSurvivedWithinTheTrust_O4(t *testing.T) {
	for outage, survives := range map[time.Duration]bool{
		15 * time.Second:         true,
		27 * time.Second:         true,
		29500 * time.Millisecond: false,
	} {
		bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
			c := open(t, db)
			start := time.Now()
			l := acquire(t, c, t.Name())
			time.Sleep(10*time.Second + time.Millisecond) // one beat
			server.Before(fail(driver.ErrBadConn))
			server.Dial(func(context.Context) error { return errors.New("connection refused") })
			time.Sleep(outage)
			server.Before(nil)
			server.Dial(nil)
			if survives {
				time.Sleep(time.Minute)
				if l.Err() != nil {
					t.Errorf("lost by an outage of %v: %v", outage, l.Err())
				}
				return
			}
			mustBe(t, "Err after an outage that outlasted the trust", l.Err(), pglease.ErrLost)
			if got := l.Deadline().Sub(start); got != 39*time.Second {
				t.Errorf("the trust ended after %v, want 39s", got)
			}
		})
	}
}

func TestRetriesStayWithinTheTrust(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db, pglease.WithRetry(10, 5*time.Second))
		start := time.Now()
		l := acquire(t, c, t.Name())
		server.Before(only("RenewLeases", obey))
		<-l.Done()
		took(t, "Done", start, 29*time.Second)
		server.Before(nil)
		synctest.Wait()
		sent := server.Sent("RenewLeases")
		for _, st := range sent {
			if at := st.At.Sub(start); at >= 29*time.Second {
				t.Errorf("an attempt after the trust: %v", at)
			}
		}
		if len(sent) < 3 {
			t.Errorf("%d attempts while the driver hung, want 3 at least", len(sent))
		}
	})
}

func TestALockedRowIsAFailedBeatOnly_H6(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		seen := new(events)
		c := open(t, db, pglease.WithObserver(seen))
		start := time.Now()
		l := acquire(t, c, t.Name())
		server.Lock(t.Name(), true)
		time.Sleep(28 * time.Second)
		if l.Err() != nil {
			t.Fatalf("lost because its row was locked: %v", l.Err())
		}
		if err := l.Renew(t.Context()); err == nil || errors.Is(err, pglease.ErrLost) {
			t.Errorf("Renew of a locked row: %v", err)
		}
		server.Lock(t.Name(), false)
		time.Sleep(time.Minute)
		if l.Err() != nil {
			t.Errorf("lost after its row was unlocked: %v", l.Err())
		}
		failures := 0
		for _, e := range seen.of(pglease.EventRenew) {
			if e.Err != nil {
				failures++
			}
		}
		if failures == 0 {
			t.Error("no failed beat was observed")
		}
		// If it stays locked, trust ends as ever.
		server.Lock(t.Name(), true)
		last := l.Deadline()
		<-l.Done()
		took(t, "Done", start, last.Sub(start))
		var lost *pglease.LostError
		if !errors.As(l.Err(), &lost) || lost.Reason != pglease.LossExpired || lost.Cause == nil {
			t.Errorf("Err: %#v", l.Err())
		}
	})
}

// 30 s after a heartbeat that hangs, a lease with a short TTL in the same client must not have suffered from it.
func TestAHangingHeartbeatDoesNotStarveAnotherLease_T3_O4(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		end := make(chan struct{})
		defer close(end)
		long := acquire(t, c, t.Name()+"/long", pglease.WithHeartbeatInterval(5*time.Second))
		short := acquire(t, c, t.Name()+"/short", pglease.WithTTL(3*time.Second))
		var hung atomic.Int64 // the connection
		server.Before(only("RenewLeases", func(_ context.Context, st fakedb.Statement) error {
			if st.At.Sub(long.AcquiredAt()) > 4500*time.Millisecond {
				hung.CompareAndSwap(0, int64(st.Conn))
			}
			if int64(st.Conn) == hung.Load() {
				return fakedb.Ignore(end)
			}
			return nil
		}))
		time.Sleep(time.Minute)
		if long.Err() != nil || short.Err() != nil {
			t.Errorf("one connection hangs, and the leases are %v, %v", long.Err(), short.Err())
		}
	})
}

func TestADroppedAnswerIsNotALoss(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		l := acquire(t, c, t.Name())
		server.After(only("RenewLeases", func(_ context.Context, st fakedb.Statement) error {
			if st.N%2 == 1 {
				return errors.New("connection reset by peer")
			}
			return nil
		}))
		time.Sleep(time.Hour)
		if l.Err() != nil {
			t.Errorf("lost though every second answer came: %v", l.Err())
		}
	})
}

func TestRenewIsOnceAndSaysWhatHappened(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		l := acquire(t, c, t.Name())
		server.Before(only("RenewLeases", fail(fakedb.Error("57P01"))))
		var failure *pglease.BackendError
		if err := l.Renew(t.Context()); !errors.As(err, &failure) || failure.Op != "renew" || failure.SQLState != "57P01" {
			t.Errorf("Renew: %#v", err)
		}
		if n := len(server.Sent("RenewLeases")); n != 1 || l.Err() != nil {
			t.Errorf("%d statements, Err %v", n, l.Err())
		}
		server.Before(only("RenewLeases", obey))
		start := time.Now()
		mustBe(t, "Renew", l.Renew(context.Background()), context.DeadlineExceeded)
		took(t, "Renew without a deadline", start, 5*time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		start = time.Now()
		mustBe(t, "Renew", l.Renew(ctx), context.DeadlineExceeded)
		took(t, "Renew with a deadline", start, time.Second)
	})
}
