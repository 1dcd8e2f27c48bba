package driver_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// TestWaiterGivesUpAtTheGrant (T1, T5, P3, H8): whatever ends a wait around the moment of the release, afterwards the lock is
// free, no row is held by nobody, and the waiter's pool is clean.
func TestWaiterGivesUpAtTheGrant(t *testing.T) {
	noGoroutineLeft(t)
	// What ends a wait, and for how long the waiter has patience. lock_timeout ends it only if a wait does not set its own.
	ends := map[string]struct {
		setting  string
		patience time.Duration
	}{
		"cancelled":         {"", 25 * time.Millisecond},
		"lock_timeout":      {"lock_timeout = '3ms'", 25 * time.Millisecond},
		"statement_timeout": {"statement_timeout = '8ms'", 60 * time.Millisecond},
	}
	t.Run("by", func(t *testing.T) {
		for name, end := range ends {
			for _, k := range three {
				t.Run(name+"/"+k.name, func(t *testing.T) {
					t.Parallel()
					e := newEnv(t).table()
					role, as := e.role()
					e.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON pglease_leases TO " + role)
					if end.setting != "" {
						e.exec("ALTER ROLE " + role + " SET " + end.setting)
					}
					seed := uint64(time.Now().UnixNano())
					t.Logf("seed %d", seed)
					giveUpAtGrants(t, e, k, e.dsn(as), rand.New(rand.NewPCG(seed, 0)), end.patience, sooner(300, 60))
				})
			}
		}
	})
}

func giveUpAtGrants(t *testing.T, e *env, k kind, dsn string, rnd *rand.Rand, patience time.Duration, rounds int) {
	t.Helper()
	holder := hybridClient(t, e.hybridPool(t, k, e.dsn()))
	waiters := hybridClient(t, e.hybridPool(t, k, dsn), pglease.WithRetry(5, time.Millisecond))
	granted := 0
	for round := range rounds {
		l := mustAcquire(t, holder, e.schema)
		ctx, cancel := context.WithCancel(context.Background())
		type result struct {
			l   *pglease.Lease
			err error
		}
		done := make(chan result, 1)
		go func() {
			l, err := waiters.Acquire(ctx, e.schema)
			done <- result{l, err}
		}()
		for limit := time.Now().Add(150 * time.Millisecond); e.waiting() == 0 && time.Now().Before(limit); {
			time.Sleep(time.Millisecond)
		}
		giveUp := time.AfterFunc(time.Duration(rnd.Int64N(int64(patience))), cancel)
		time.Sleep(time.Duration(rnd.IntN(1500)) * time.Microsecond)
		mustRelease(t, l)
		r := await(t, "the waiter", done)
		giveUp.Stop()
		cancel()
		if r.err == nil {
			granted++
			if err := r.l.Release(context.Background()); err != nil {
				t.Fatalf("round %d: release: %v", round, err)
			}
		}
		var locks, rows int
		if !poll(func() bool {
			err := e.admin.QueryRow(`SELECT (SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
					WHERE locktype = 'advisory' AND application_name = $1),
				(SELECT count(*) FROM pglease_leases WHERE expires_at > clock_timestamp())`, e.app).Scan(&locks, &rows)
			return err == nil && locks == 0 && rows == 0
		}) {
			t.Fatalf("round %d, after %v: %d locks and %d rows are held by nobody", round, r.err, locks, rows)
		}
	}
	t.Logf("%d of %d waiters were granted", granted, rounds)
	if granted == 0 || granted == rounds {
		t.Error("no race")
	}
}
