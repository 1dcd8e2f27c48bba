package pglease_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/internal/fakedb"
)

// ForceRelease cannot pass an open CheckTx: it waits, within bounds, and says who is in the way.
func TestForceReleaseOfAGuardedLeaseChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		l := acquire(t, c, t.Name())
		server.Lock(t.Name(), true)
		before, _ := server.Row(t.Name())
		start := time.Now()
		_, err := c.ForceRelease(context.Background(), t.Name())
		within(t, "ForceRelease", start, 3*time.Second, 6*time.Second)
		var failure *pglease.BackendError
		if !errors.As(err, &failure) || errors.Is(err, pglease.ErrHeld) || !strings.Contains(err.Error(), "fakedb's guard") {
			t.Errorf("ForceRelease: %v, want a *BackendError that names the guard", err)
		}
		if after, _ := server.Row(t.Name()); after != before {
			t.Errorf("the row was %+v, is %+v", before, after)
		}
		// When the guard goes in time, it succeeds.
		time.AfterFunc(time.Second, func() { server.Lock(t.Name(), false) })
		start = time.Now()
		info, err := c.ForceRelease(context.Background(), t.Name())
		within(t, "ForceRelease", start, time.Second, 1300*time.Millisecond)
		if err != nil || info.Token != l.Token() {
			t.Errorf("ForceRelease: %+v, %v", info, err)
		}
		<-l.Done()
	})
}

// Rows that expired a week ago are purged once an hour, by a client that holds leases.
func TestOldRowsArePurgedByTheWay(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		start := time.Now()
		for name, age := range map[string]time.Duration{"old": 8 * 24 * time.Hour, "young": 6 * 24 * time.Hour} {
			server.Edit(name, func(*fakedb.Row) *fakedb.Row {
				return &fakedb.Row{Name: name, Owner: "x", AcquiredAt: start.Add(-age), HeartbeatAt: start.Add(-age), ExpiresAt: start.Add(-age)}
			})
		}
		c := open(t, db)
		l := acquire(t, c, t.Name())
		time.Sleep(61*time.Minute + 5*time.Second) // between two beats
		if _, there := server.Row("old"); there {
			t.Error("a row that expired 8 days ago is still there")
		}
		if _, there := server.Row("young"); !there {
			t.Error("a row that expired 6 days ago was deleted")
		}
		if n := len(server.Sent("DeleteExpiredLeases")); n != 1 {
			t.Errorf("%d deletions in an hour", n)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		server.Forget()
		time.Sleep(5 * time.Hour)
		if sent := server.Sent(""); len(sent) > 0 {
			t.Errorf("a client without leases sent %v", sent)
		}
		l = acquire(t, c, t.Name()) // also one whose leases are all short
		synctest.Wait()
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(server.Sent("DeleteExpiredLeases")); n != 1 {
			t.Errorf("%d deletions with the first lease after hours", n)
		}
	})
}

// A lease that is over within a second costs no goroutine of the heartbeat; one that lasts has it, however many are acquired meanwhile.
func TestTheHeartbeatStartsWhenItIsNeeded(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db, pglease.WithTTL(6*time.Second)) // a beat every 2 s
		for range 3 {
			if err := acquire(t, c, "short").Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if sent := server.Sent("RenewLeases"); len(sent) > 0 {
			t.Errorf("%d renewals without a lease", len(sent))
		}
		l := acquire(t, c, "long")
		time.Sleep(500 * time.Millisecond)
		hasty := acquire(t, c, "hasty", pglease.WithTTL(900*time.Millisecond)) // a beat after 200 ms, before the first look at the clocks
		time.Sleep(5 * time.Second)
		for _, l := range []*pglease.Lease{hasty, l} {
			if err := l.Err(); err != nil {
				t.Errorf("%s: %v", l.Name(), err)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A given *sql.Conn in a transaction: a write counts only once it is known to be committed.
func TestAGivenConnInATransactionIsNotedAtOnce_P11(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		c := open(t, conn)
		server.Transaction(true)
		var unsupported *pglease.UnsupportedError
		if _, err := c.TryAcquire(t.Context(), t.Name()); !errors.As(err, &unsupported) || !strings.Contains(err.Error(), "the connection has an open transaction") {
			t.Errorf("TryAcquire: %v, want an *UnsupportedError that names the transaction", err)
		}
		if row, _ := server.Row(t.Name()); row.ExpiresAt.After(time.Now()) {
			t.Errorf("held all the same: %+v", row)
		}
		server.Transaction(false)
		start := time.Now()
		l := acquire(t, c, t.Name())
		server.Transaction(true)
		time.Sleep(15 * time.Second)
		if l.Err() != nil || l.Deadline().Sub(start) != 29*time.Second {
			t.Errorf("a beat in a transaction is a failed one: Err %v, deadline %v", l.Err(), l.Deadline().Sub(start))
		}
		server.Transaction(false)
		time.Sleep(6 * time.Second)
		if l.Err() != nil || l.Deadline().Sub(start) <= 29*time.Second {
			t.Errorf("after the transaction: Err %v, deadline %v", l.Err(), l.Deadline().Sub(start))
		}
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
	})
}

// A Python worker's row has no token and no metadata, and may say infinity.
func TestAPythonWorkersRowIsShownAndRespected(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		start := time.Now()
		server.Edit(t.Name(), func(*fakedb.Row) *fakedb.Row {
			return &fakedb.Row{Name: t.Name(), Owner: "worker:1", AcquiredAt: start, HeartbeatAt: start, ExpiresAt: start.Add(time.Minute)}
		})
		info, err := c.Get(t.Context(), t.Name())
		if err != nil || info.Token != 0 || info.Owner != "worker:1" || info.Metadata != nil || info.Mode != pglease.ModeTable || info.Remaining() != time.Minute {
			t.Errorf("Get: %+v, %v", info, err)
		}
		_, err = c.TryAcquire(t.Context(), t.Name())
		mustBe(t, "TryAcquire", err, pglease.ErrHeld)
		l, err := c.Acquire(t.Context(), t.Name())
		if err != nil || l.Token() < start.UnixMicro() {
			t.Errorf("Acquire: %v, %v", l, err)
		}
		within(t, "Acquire", start, time.Minute, time.Minute+1250*time.Millisecond)
		// It takes the row back the Python way: owner and times only.
		server.Edit(t.Name(), func(r *fakedb.Row) *fakedb.Row {
			r.Owner, r.AcquiredAt, r.HeartbeatAt, r.ExpiresAt = "worker:2", time.Now(), time.Now(), time.Now().Add(time.Minute)
			return r
		})
		<-l.Done()
		synctest.Wait()
		if row, _ := server.Row(t.Name()); row.Owner != "worker:2" || row.Token != l.Token() {
			t.Errorf("the row of the Python worker was touched: %+v", row)
		}
	})
}
