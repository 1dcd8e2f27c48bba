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

// TestNoContextHangsWhenNothingAnswers (T7): without a deadline, too, a call returns when a statement has had its time and what follows it, the
// wait for another connection, does not end.
func TestNoContextHangsWhenNothingAnswers(t *testing.T) {
	for name, do := range map[string]func(*pglease.Client, *pglease.Lease) error{
		"Release": func(_ *pglease.Client, l *pglease.Lease) error { return l.Release(context.Background()) },
		"Close":   func(c *pglease.Client, _ *pglease.Lease) error { return c.Close(context.Background()) },
		"Get": func(c *pglease.Client, _ *pglease.Lease) error {
			_, err := c.Get(context.Background(), "another")
			return err
		},
		"TryAcquire": func(c *pglease.Client, _ *pglease.Lease) error {
			_, err := c.TryAcquire(context.Background(), "another")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
				c := open(t, db, pglease.WithTTL(time.Hour))
				l := acquire(t, c, t.Name())
				idle, err := db.Conn(t.Context()) // beside the one that is kept for the heartbeats
				if err != nil {
					t.Fatal(err)
				}
				if err := idle.Close(); err != nil {
					t.Fatal(err)
				}
				end := make(chan struct{})
				hang := func(ctx context.Context) error {
					select {
					case <-end:
					case <-ctx.Done():
					}
					return driver.ErrBadConn // as lib/pq says of a connection that a context has ended
				}
				server.Before(func(ctx context.Context, _ fakedb.Statement) error { return hang(ctx) })
				server.Dial(hang)
				start := time.Now()
				if err := do(c, l); err == nil {
					t.Error("it succeeded")
				}
				if wait := time.Since(start); wait > 11*time.Second {
					t.Errorf("it took %v", wait)
				}
				close(end)
				synctest.Wait()
			})
		})
	}
}

// TestACallGoesOnAfterALateStatement: a deadline of the caller's is his to set.
func TestACallGoesOnAfterALateStatement(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db, pglease.WithTTL(time.Hour))
		l := acquire(t, c, t.Name())
		server.Before(only("ReleaseLease", func(ctx context.Context, st fakedb.Statement) error {
			if st.N == 1 {
				<-ctx.Done()
				return driver.ErrBadConn
			}
			return slow(4*time.Second)(ctx, st)
		}))
		dial := slow(8 * time.Second)
		server.Dial(func(ctx context.Context) error { return dial(ctx, fakedb.Statement{}) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if err := l.Release(ctx); err != nil {
			t.Errorf("Release: %v", err)
		}
		took(t, "Release", start, 17*time.Second)
	})
}

// TestAGivenConnThatHangsIsNotWaitedForWithoutEnd: whoever was given up has the connection still.
func TestAGivenConnThatHangsIsNotWaitedForWithoutEnd(t *testing.T) {
	for name, opts := range map[string][]pglease.Option{"table": nil, "hybrid": {pglease.WithHybrid()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
				conn, err := db.Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				c := open(t, conn, opts...)
				end := make(chan struct{})
				server.Before(only("GetLease", deaf(end)))
				short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if _, err := c.Get(short, t.Name()); err == nil {
					t.Fatal("Get: it was to hang")
				}
				start := time.Now()
				if _, err := c.TryAcquire(context.Background(), t.Name()); err == nil {
					t.Error("TryAcquire: it succeeded")
				}
				if _, err := c.Get(context.Background(), t.Name()); err == nil {
					t.Error("Get: it succeeded")
				}
				if wait := time.Since(start); wait > 31*time.Second {
					t.Errorf("the two took %v", wait)
				}
				close(end)
				synctest.Wait()
			})
		})
	}
}
