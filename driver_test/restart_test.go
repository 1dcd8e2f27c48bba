package driver_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// fillIdle has the pool keep n idle connections.
func fillIdle(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	conns := make([]*sql.Conn, n)
	for i := range conns {
		var err error
		if conns[i], err = db.Conn(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range conns {
		_ = c.Close()
	}
}

// restart crashes the server and starts it again.
func restart(t *testing.T, p *place) {
	t.Helper()
	if err := errors.Join(p.Crash(), p.Restart(testContext(t))); err != nil {
		t.Fatal(err)
	}
}

// TestServerRestart: within its trust a lease survives (the row is durable), a longer outage is a loss; Lead comes back by
// itself; idle connections that the server has closed do no harm (S3, P5).
func TestServerRestart(t *testing.T) {
	p := breaking.get(t, "local")
	noGoroutineLeft(t)
	for _, k := range three {
		t.Run(k.name, func(t *testing.T) {
			e := newEnvAt(t, p).table()
			db := e.open(t, k, e.dsn())
			ctx := testContext(t)
			long := client(t, db)
			survivor, err := long.TryAcquire(ctx, "survivor")
			if err != nil {
				t.Fatal(err)
			}
			brief := client(t, db, pglease.WithTTL(1500*time.Millisecond))
			terms := make(chan *pglease.Lease, 100)
			leadCtx, resign := context.WithCancel(ctx)
			led := make(chan error, 1)
			go func() {
				led <- brief.Lead(leadCtx, "leader", func(ctx context.Context, l *pglease.Lease) error {
					terms <- l
					<-ctx.Done()
					return ctx.Err()
				})
			}()
			first := await(t, "the first term", terms)
			fillIdle(t, db, 10)

			// An outage longer than the trust of the leader.
			if err := p.Crash(); err != nil {
				t.Fatal(err)
			}
			if err := func() error { _, err := long.TryAcquire(ctx, "another"); return err }(); err == nil || errors.Is(err, pglease.ErrHeld) {
				t.Errorf("a try during the outage: %v", err)
			}
			await(t, "the loss", first.Done())
			if !errors.Is(first.Err(), pglease.ErrLost) {
				t.Errorf("the leader's lease: %v", first.Err())
			}
			if err := p.Restart(ctx); err != nil {
				t.Fatal(err)
			}
			next := await(t, "the next term", terms)
			if next.Token() <= first.Token() {
				t.Errorf("token %d after %d", next.Token(), first.Token())
			}
			eventually(t, "a renewal", func() bool { return survivor.Renew(ctx) == nil })
			if err := survivor.Err(); err != nil {
				t.Errorf("a lease with trust enough: %v", err)
			}

			// A restart that the client sees nothing of, with idle connections of all kinds.
			fillIdle(t, db, 20)
			restart(t, p)
			l, err := long.Acquire(ctx, "acquired with stale connections")
			if err != nil {
				t.Errorf("Acquire with stale idle connections: %v", err)
			} else {
				eventually(t, "a release, on whatever connection", func() bool { return l.Release(ctx) == nil })
			}
			eventually(t, "another renewal", func() bool { return survivor.Renew(ctx) == nil })
			resign()
			if err := await(t, "the end of Lead", led); err != nil {
				t.Errorf("Lead: %v", err)
			}
			if err := survivor.Release(ctx); err != nil {
				t.Errorf("release: %v", err)
			}
		})
	}
}
