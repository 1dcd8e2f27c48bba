package driver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pglease/pglease-go/pglease"
)

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

// TestOneConnectionIsEnough (P2): never a deadlock, whoever limits the pool.
func TestOneConnectionIsEnough(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		for _, limit := range []int{1, 2, 3} {
			db := e.open(t, k, e.dsn())
			db.SetMaxOpenConns(limit)
			useWithFewConnections(t, db)
		}
	})
}

// TestOneConnectionOfAPgxPoolIsEnough (P2, P12), if the *sql.DB is told of the pool's limit: nobody can see that otherwise.
func TestOneConnectionOfAPgxPoolIsEnough(t *testing.T) {
	for _, limit := range []int32{1, 2} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			e := newEnv(t).table()
			config, err := pgxpool.ParseConfig(e.dsn())
			if err != nil {
				t.Fatal(err)
			}
			config.MaxConns = limit
			pool, err := pgxpool.NewWithConfig(testContext(t), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			db := stdlib.OpenDBFromPool(pool)
			t.Cleanup(func() { _ = db.Close() })
			db.SetMaxOpenConns(int(limit))
			useWithFewConnections(t, db)
		})
	}
}

func useWithFewConnections(t *testing.T, db *sql.DB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a := client(t, db, pglease.WithTTL(6*time.Second), pglease.WithHeartbeatInterval(50*time.Millisecond))
	b := client(t, db, pglease.WithTTL(6*time.Second), pglease.WithHeartbeatInterval(50*time.Millisecond))
	var leases []*pglease.Lease
	for i, c := range []*pglease.Client{a, b, a, b} {
		l, err := c.TryAcquire(ctx, fmt.Sprintf("lease %d", i))
		if err != nil {
			t.Fatalf("lease %d: %v", i, err)
		}
		leases = append(leases, l)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := b.Acquire(ctx, "lease 0")
		waited <- err
	}()
	for _, l := range leases {
		// A heartbeat may have the row at the same moment.
		eventually(t, "a renewal of "+l.Name(), func() bool { return l.Renew(ctx) == nil })
		if _, err := a.Get(ctx, l.Name()); err != nil {
			t.Errorf("reading %q: %v", l.Name(), err)
		}
		if err := db.PingContext(ctx); err != nil {
			t.Errorf("the application: %v", err)
		}
	}
	if err := leases[0].Release(ctx); err != nil {
		t.Errorf("release: %v", err)
	}
	if err := await(t, "the waiter", waited); err != nil {
		t.Errorf("the waiter: %v", err)
	}
	for _, c := range []*pglease.Client{a, b} {
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// TestDrainedPool (P6): the application takes every connection there is; the leases live on.
func TestDrainedPool(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		db := e.open(t, k, e.dsn())
		db.SetMaxOpenConns(5)
		const ttl = 3 * time.Second
		ctx := testContext(t)
		c := client(t, db, pglease.WithTTL(ttl))
		l, err := c.TryAcquire(ctx, "name")
		if err != nil {
			t.Fatal(err)
		}
		var taken []*sql.Conn
		defer func() {
			for _, conn := range taken {
				_ = conn.Close()
			}
		}()
		for db.Stats().InUse < 5 {
			conn, err := db.Conn(ctx)
			if err != nil {
				t.Fatal(err)
			}
			taken = append(taken, conn)
		}
		until := l.ExpiresAt().Add(2 * ttl)
		eventually(t, "heartbeats with a drained pool", func() bool { return l.Err() != nil || l.ExpiresAt().After(until) })
		if err := l.Err(); err != nil {
			t.Error(err)
		}

		// A try has no connection: that is an error of the pool, at the end of its context, and not "held".
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err = c.TryAcquire(short, "another")
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, pglease.ErrHeld) {
			t.Errorf("a try with a drained pool: %v", err)
		}
		if err := l.Release(ctx); err != nil {
			t.Errorf("a release with a drained pool: %v", err)
		}
	})
}

// TestShortLivedConnections (P5): the pool retires every connection at once.
func TestShortLivedConnections(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		db := e.open(t, k, e.dsn())
		db.SetConnMaxLifetime(time.Millisecond)
		ctx := testContext(t)
		c := client(t, db, pglease.WithTTL(6*time.Second), pglease.WithHeartbeatInterval(20*time.Millisecond))
		l, err := c.TryAcquire(ctx, "name")
		if err != nil {
			t.Fatal(err)
		}
		until := l.ExpiresAt().Add(500 * time.Millisecond)
		eventually(t, "heartbeats", func() bool {
			_, err := c.TryAcquire(ctx, "name")
			if !errors.Is(err, pglease.ErrHeld) {
				t.Fatal(err)
			}
			return l.Err() != nil || l.ExpiresAt().After(until)
		})
		if err := errors.Join(l.Err(), l.Release(ctx)); err != nil {
			t.Error(err)
		}
	})
}
