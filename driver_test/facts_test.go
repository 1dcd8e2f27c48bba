package driver_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/wire"
	"github.com/pglease/pglease-go/pglease"
)

// TestEachOperationIsOneStatement: with pgx, which prepares what it has sent before, also one round trip; lib/pq needs a
// second one to learn the types of the arguments, until the client has asked often (TestTableStatementsStayPrepared).
func TestEachOperationIsOneStatement(t *testing.T) {
	each(t, three, func(t *testing.T, e *env, k kind) {
		count := &wire.Counter{}
		db := e.openThrough(t, k, e.dsn(), count)
		ctx := testContext(t)
		c := client(t, db)
		other := client(t, db)
		trips := 1
		if k.name == libpq.name {
			trips = 2
		}

		var l *pglease.Lease
		operations := []struct {
			name string
			do   func() error
		}{
			{"acquire", func() (err error) { l, err = c.TryAcquire(ctx, "one"); return err }},
			{"a losing try", func() error {
				if _, err := other.TryAcquire(ctx, "one"); !errors.Is(err, pglease.ErrHeld) {
					return fmt.Errorf("not held: %w", err)
				}
				return nil
			}},
			{"get", func() error { _, err := other.Get(ctx, "one"); return err }},
			{"list", func() error { _, err := other.List(ctx); return err }},
			{"renew", func() error { return l.Renew(ctx) }},
			{"release", func() error { return l.Release(ctx) }},
			{"acquire a released lease", func() (err error) { l, err = c.TryAcquire(ctx, "one"); return err }},
			{"force release", func() error { _, err := other.ForceRelease(ctx, "one"); return err }},
			{"delete expired", func() error { _, err := other.DeleteExpired(ctx, 0); return err }},
		}
		// The first rounds open connections and prepare statements on them; the fewest counts what an operation costs.
		fewest := make([]struct{ statements, trips int }, len(operations))
		for round := range 6 {
			for i, o := range operations {
				count.Reset()
				if err := o.do(); err != nil {
					t.Fatalf("%s: %v", o.name, err)
				}
				s, n := count.Count()
				if f := &fewest[i]; round == 0 || n < f.trips {
					f.statements, f.trips = s, n
				}
			}
		}
		for i, o := range operations {
			if f := fewest[i]; f.statements != 1 || f.trips != trips {
				t.Errorf("%s: %d statements, %d round trips; want 1 and %d", o.name, f.statements, f.trips, trips)
			}
		}
	})
}

// TestHeartbeatsShareStatements: the renewals of a client are one statement for all leases that are due.
func TestHeartbeatsShareStatements(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		count := &wire.Counter{}
		db := e.openThrough(t, k, e.dsn(), count)
		const leases = 50
		const beats = 3
		renewals := make(chan struct{}, 10000)
		c := client(t, db, pglease.WithTTL(time.Minute), pglease.WithHeartbeatInterval(500*time.Millisecond),
			pglease.WithObserver(observer(func(ev pglease.Event) {
				if ev.Kind == pglease.EventRenew && ev.Err == nil {
					renewals <- struct{}{}
				}
			})))
		for i := range leases {
			if _, err := c.TryAcquire(testContext(t), fmt.Sprintf("lease %d", i)); err != nil {
				t.Fatal(err)
			}
		}
		for range leases { // by then all of them have come to beat together, or nearly so
			await(t, "a heartbeat", renewals)
		}
		count.Reset()
		for range beats * leases {
			await(t, "a heartbeat", renewals)
		}
		// pgx may prepare on one more connection; the leases may still be due in two or three groups.
		if statements, _ := count.Count(); statements > 4*beats {
			t.Errorf("%d statements for %d heartbeats of %d leases", statements, beats, leases)
		}
	})
}

// observer is a function as an Observer.
type observer func(pglease.Event)

func (f observer) Observe(_ context.Context, e pglease.Event) { f(e) }

// TestLosingTryWritesNothing: no transaction id, no WAL. Others (autovacuum, a checkpoint) may write something at the same
// time, so one round of several must be clean.
func TestLosingTryWritesNothing(t *testing.T) {
	noGoroutineLeft(t)
	for _, k := range two { // one after the other: they count what the whole server does
		t.Run(k.name, func(t *testing.T) {
			e := newEnv(t).table()
			db := e.open(t, k, e.dsn())
			if _, err := client(t, db).TryAcquire(testContext(t), "held"); err != nil {
				t.Fatal(err)
			}
			loser := client(t, db)
			const tries = 1000
			var xids, bytes int64
			for range 5 {
				xid := value[int64](e, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
				lsn := value[string](e, "SELECT pg_current_wal_insert_lsn()::text")
				for range tries {
					if _, err := loser.TryAcquire(testContext(t), "held"); !errors.Is(err, pglease.ErrHeld) {
						t.Fatalf("a losing try: %v", err)
					}
				}
				xids = value[int64](e, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint") - xid
				bytes = value[int64](e, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::pg_lsn)::bigint", lsn)
				if xids == 0 && bytes < tries {
					return
				}
			}
			t.Errorf("%d losing tries took %d transaction ids and wrote %d bytes of WAL", tries, xids, bytes)
		})
	}
}

// TestHeartbeatsAreHOT: no index is touched and the table does not grow (D5).
func TestHeartbeatsAreHOT(t *testing.T) {
	e := newEnv(t).table()
	c := client(t, e.open(t, pgxStdlib, e.dsn()))
	const leases, beats = 50, 20
	var held []*pglease.Lease
	for i := range leases {
		l, err := c.TryAcquire(testContext(t), fmt.Sprintf("lease %d", i))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, l)
	}
	for range beats {
		for _, l := range held {
			if err := l.Renew(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const query = "FROM pg_stat_user_tables WHERE relname = 'pglease_leases' AND schemaname = $1"
	// A session reports what it did about once a second, when it does something again.
	eventually(t, "the statistics to tell of every renewal", func() bool {
		_ = held[0].Renew(testContext(t))
		return value[int](e, "SELECT n_tup_upd::int "+query, e.schema) >= leases*beats
	})
	if hot := value[float64](e, "SELECT n_tup_hot_upd::float8 / n_tup_upd "+query, e.schema); hot < 0.97 {
		t.Errorf("%.1f %% of the renewals are HOT", 100*hot)
	}
	if size := value[int](e, "SELECT pg_relation_size('pglease_leases')::int"); size > 16*8192 {
		t.Errorf("the table has grown to %d bytes", size)
	}
}

// TestExactlyOneFirstAcquirerWins, and none sees a unique violation (D1).
func TestExactlyOneFirstAcquirerWins(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		db := e.open(t, k, e.dsn())
		const rivals, rounds = 6, 60
		clients := make([]*pglease.Client, rivals)
		for i := range clients {
			clients[i] = client(t, db)
		}
		for round := range rounds {
			name := fmt.Sprintf("round %d", round)
			if round%3 == 2 { // an expired row to take, instead of one to make
				e.exec(`INSERT INTO pglease_leases (task_name, owner_id, acquired_at, expires_at, heartbeat_at)
					VALUES ($1, 'gone', now(), now(), now())`, name)
			}
			var wg sync.WaitGroup
			errs := make([]error, rivals)
			start := make(chan struct{})
			for i, c := range clients {
				wg.Go(func() {
					<-start
					_, errs[i] = c.TryAcquire(context.Background(), name)
				})
			}
			close(start)
			wg.Wait()
			winners := 0
			for _, err := range errs {
				if err == nil {
					winners++
				} else if !errors.Is(err, pglease.ErrHeld) {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if winners != 1 {
				t.Fatalf("%s: %d winners", name, winners)
			}
		}
	})
}

// TestTryNeverWaitsBehindARowLock: a locked row is a held one, whoever locks it, and expired or not.
func TestTryNeverWaitsBehindARowLock(t *testing.T) {
	each(t, three, func(t *testing.T, e *env, k kind) {
		db := e.open(t, k, e.dsn())
		c := client(t, db)
		for _, lock := range []string{"FOR UPDATE", "FOR NO KEY UPDATE", "FOR SHARE", "FOR KEY SHARE"} {
			for _, expired := range []bool{true, false} {
				name := fmt.Sprintf("%s, expired %v", lock, expired)
				e.exec(`INSERT INTO pglease_leases (task_name, owner_id, acquired_at, expires_at, heartbeat_at)
					VALUES ($1, 'python', now(), now() + CASE WHEN $2 THEN '-1s' ELSE '1h' END::interval, now())`, name, expired)
				tx := begin(t, db, nil)
				if _, err := tx.Exec("SELECT FROM pglease_leases WHERE task_name = $1 "+lock, name); err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				_, err := c.TryAcquire(testContext(t), name)
				var held *pglease.HeldError
				if !errors.As(err, &held) || held.Expired() != expired || held.Owner != "python" {
					t.Errorf("%s: %v", name, err)
				}
				if took := time.Since(begun); took > 2*time.Second { // it would wait for ever
					t.Errorf("%s: the try took %v", name, took)
				}
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
