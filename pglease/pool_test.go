package pglease_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/internal/fakedb"
)

func TestStatementCounts(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c, other := open(t, db), open(t, db)
		count := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			if sent := server.Sent(""); len(sent) != want {
				t.Errorf("%s: %d statements, want %d: %+v", what, len(sent), want, sent)
			}
			server.Forget()
		}
		count("New", 0)
		l := acquire(t, c, t.Name())
		count("TryAcquire", 1)
		_, err := other.TryAcquire(t.Context(), t.Name())
		mustBe(t, "TryAcquire", err, pglease.ErrHeld)
		count("TryAcquire of a held lease", 1)
		if err := l.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		count("Renew", 1)
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		count("Release", 1)
		_ = l.Release(t.Context())
		count("Release again", 0)
		if err := c.Do(t.Context(), t.Name(), func(context.Context, *pglease.Lease) error { return nil }); err != nil {
			t.Fatal(err)
		}
		count("Do", 2)
		if err := c.Lead(t.Context(), t.Name(), func(context.Context, *pglease.Lease) error { return nil }); err != nil {
			t.Fatal(err)
		}
		count("Lead", 2)
		if _, err = c.Acquire(t.Context(), t.Name()); err != nil {
			t.Fatal(err)
		}
		count("Acquire of a free lease", 1)
		for what, call := range map[string]func() error{
			"Get":           func() error { _, err := c.Get(t.Context(), t.Name()); return err },
			"List":          func() error { _, err := c.List(t.Context()); return err },
			"DeleteExpired": func() error { _, err := c.DeleteExpired(t.Context(), time.Hour); return err },
			"ForceRelease":  func() error { _, err := c.ForceRelease(t.Context(), t.Name()); return err },
		} {
			if err := call(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			count(what, 1)
		}
		for _, name := range []string{"", "a\x00b", "\xff"} {
			_, err := c.TryAcquire(t.Context(), name)
			mustBe(t, "TryAcquire", err, pglease.ErrInvalidName)
		}
		count("invalid names (N1)", 0)
	})
}

func TestOneConnectionIsEnough_P2(t *testing.T) {
	for _, limit := range []int{1, 2} {
		bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
			db.SetMaxOpenConns(limit)
			c := open(t, db)
			for i := range 3 {
				l := acquire(t, c, t.Name())
				time.Sleep(time.Minute) // heartbeats
				// The application uses the pool as well.
				if _, err := db.ExecContext(t.Context(), "work"); err != nil {
					t.Fatal(err)
				}
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := l.CheckTx(t.Context(), tx); err != nil {
					t.Errorf("CheckTx in the pool's only connection: %v", err)
				}
				time.Sleep(5 * time.Second)
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
				if l.Err() != nil {
					t.Errorf("cycle %d: %v", i, l.Err())
				}
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if inUse := db.Stats().InUse; inUse != 0 {
				t.Errorf("%d connections still in use", inUse)
			}
		})
	}
}

// CheckTx fails while the transaction has the pool's only connection: finding out why must not wait for another.
func TestAFailingCheckTxDoesNotDeadlock_P2(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		db.SetMaxOpenConns(1)
		c := open(t, db)
		l := acquire(t, c, t.Name())
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		server.Before(only("CheckTerm", fail(fakedb.Error("42P01"))))
		start := time.Now()
		mustBe(t, "CheckTx without a table", l.CheckTx(context.Background(), tx), pglease.ErrNoSchema)
		within(t, "CheckTx", start, 0, 2*time.Second)
	})
}

func TestADrainedPoolDoesNotLoseTheLease_P6(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		db.SetMaxOpenConns(5)
		c := open(t, db)
		l := acquire(t, c, t.Name())
		for range 4 { // all that is left
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := db.Conn(ctx); err == nil {
			t.Fatal("the pool is not drained")
		}
		time.Sleep(50 * time.Minute) // after an hour old rows are purged, over another connection
		if l.Err() != nil {
			t.Errorf("lost while the pool was drained: %v", l.Err())
		}
		start := time.Now()
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("Release while the pool is drained: %v", err)
		}
		took(t, "Release", start, 0)
		if inUse := db.Stats().InUse; inUse != 4 {
			t.Errorf("%d connections in use after the release, want the application's 4", inUse)
		}
	})
}

// A connection that has ended while it was kept is replaced.
func TestAKeptConnectionThatEndedIsReplaced_P5(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		l := acquire(t, c, t.Name())
		dead := server.Sent("attempt")[0].Conn
		server.Before(func(_ context.Context, st fakedb.Statement) error {
			if st.Conn == dead {
				return driver.ErrBadConn
			}
			return nil
		})
		start := time.Now()
		time.Sleep(10*time.Second + time.Millisecond)
		if got := l.Deadline().Sub(start); got != 39*time.Second {
			t.Errorf("the heartbeat after the connection's end has moved the deadline to %v, want 39s", got)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if stats := db.Stats(); stats.InUse != 0 {
			t.Errorf("%d connections in use", stats.InUse)
		}
	})
}

func TestAWaitForAConnectionEndsWithItsContext_T7(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		db.SetMaxOpenConns(1)
		seen := new(events)
		c := open(t, db, pglease.WithObserver(seen))
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, err = c.TryAcquire(ctx, t.Name())
		took(t, "TryAcquire on a full pool", start, time.Minute)
		mustBe(t, "TryAcquire", err, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		// Nothing was sent, so there is nothing to take back.
		if withdrawn := seen.of(pglease.EventWithdraw); len(withdrawn) > 0 || len(server.Sent("")) > 0 {
			t.Errorf("after an attempt that was never sent: %+v, %+v", withdrawn, server.Sent(""))
		}
		_ = conn.Close()
	})
}
