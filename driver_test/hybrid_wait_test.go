package driver_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/wire"
	"github.com/pglease/pglease-go/pglease"
)

// waits starts to acquire, and returns when the server has the session wait for the lock.
func (e *env) waits(t *testing.T, c *pglease.Client, opts ...pglease.AcquireOption) <-chan *pglease.Lease {
	t.Helper()
	before := e.waiting()
	got := make(chan *pglease.Lease, 1)
	ctx := testContext(t)
	go func() {
		l, err := c.Acquire(ctx, e.schema, opts...)
		if err != nil {
			t.Errorf("the waiter: %v", err)
		}
		got <- l
	}()
	eventually(t, "a session that waits for the lock", func() bool { return e.waiting() > before })
	return got
}

// TestHandOverWithoutAMiss (H1, H2): whoever has waited for the lock gets the row with its first look.
func TestHandOverWithoutAMiss(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		var refused atomic.Int64
		count := pglease.WithObserver(observer(func(ev pglease.Event) {
			if ev.Kind == pglease.EventAcquire && errors.Is(ev.Err, pglease.ErrHeld) {
				refused.Add(1)
			}
		}))
		clients := [2]*pglease.Client{
			hybridClient(t, e.hybridPool(t, k, e.dsn()), count, pglease.WithPollInterval(time.Hour)),
			hybridClient(t, e.hybridPool(t, k, e.dsn()), count, pglease.WithPollInterval(time.Hour)),
		}
		l := mustTry(t, clients[0], e.schema)
		rounds := sooner(1000, 200)
		var slowest time.Duration
		for i := range rounds {
			refused.Store(0)
			got := e.waits(t, clients[(i+1)%2])
			begun := time.Now()
			mustRelease(t, l)
			next := await(t, "the hand-over", got)
			slowest = max(slowest, time.Since(begun))
			if next.Token() <= l.Token() {
				t.Fatalf("token %d after %d", next.Token(), l.Token())
			}
			if n := refused.Load(); n != 1 { // the try before the wait
				t.Fatalf("hand-over %d: %d attempts were refused, want only the one before the wait", i, n)
			}
			l = next
		}
		mustRelease(t, l)
		t.Logf("%d hand-overs, the slowest took %v", rounds, slowest)
	})
}

// TestFirstComeFirstServed: those who wait in the same slice, in different processes as far as the server can tell, are served in
// the order in which they came.
func TestFirstComeFirstServed(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		const waiters, inOneSlice = 5, 4 * time.Second
		clients := make([]*pglease.Client, waiters)
		for i := range clients {
			clients[i] = hybridClient(t, e.hybridPool(t, k, e.dsn()))
			mustRelease(t, mustTry(t, clients[i], e.schema)) // its pre-flight is over
		}
		for {
			l := mustTry(t, clients[0], e.schema)
			begun := time.Now()
			type served struct {
				waiter int
				*pglease.Lease
			}
			order := make(chan served, waiters)
			for i, c := range clients[1:] {
				got := e.waits(t, c)
				go func() { order <- served{i, <-got} }()
			}
			sameSlice := time.Since(begun) < inOneSlice
			mustRelease(t, l)
			for i := range clients[1:] {
				next := await(t, "a waiter", order)
				if sameSlice && next.waiter != i {
					t.Errorf("waiter %d was served as number %d", next.waiter, i)
				}
				mustRelease(t, next.Lease)
			}
			if sameSlice {
				return
			}
		}
	})
}

// TestWaitingPinsNoOldSnapshot: a statement that waits for a lock holds back the whole server's vacuum; none does so for longer
// than a slice. Nor does the watch of a holder, at any time.
func TestWaitingPinsNoOldSnapshot(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		const sliceAndSlack = 6500 * time.Millisecond
		l := mustTry(t, hybridClient(t, e.hybridPool(t, k, e.dsn())), e.schema)
		holder := e.holderPID()
		got := e.waits(t, hybridClient(t, e.hybridPool(t, k, e.dsn())))
		end := time.Now().Add(time.Duration(sooner(12, 6)) * time.Second)
		var longest time.Duration
		slices := map[time.Time]bool{}
		for time.Now().Before(end) {
			var pid int
			var begun time.Time
			var seconds float64
			err := e.admin.QueryRowContext(testContext(t), `SELECT pid, query_start, extract(epoch FROM clock_timestamp() - query_start)::float8
				FROM pg_stat_activity WHERE application_name = $1 AND backend_xmin IS NOT NULL ORDER BY query_start LIMIT 1`, e.app).Scan(&pid, &begun, &seconds)
			if err != nil {
				continue // between two slices
			}
			if pid == holder && seconds > 1 {
				t.Fatalf("the holder's session has held back vacuum for %v s", seconds)
			}
			longest = max(longest, time.Duration(seconds*float64(time.Second)))
			slices[begun] = true
			time.Sleep(20 * time.Millisecond)
		}
		if longest > sliceAndSlack || len(slices) < 2 {
			t.Errorf("a snapshot was %v old; %d statements were seen", longest, len(slices))
		}
		mustRelease(t, l)
		mustRelease(t, await(t, "the waiter", got))
	})
}

// TestThousandWaiters of one process wait on one connection, which sends a statement now and then.
func TestThousandWaiters(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		l := mustTry(t, hybridClient(t, e.hybridPool(t, k, e.dsn())), e.schema)
		count := &wire.Counter{}
		db := e.openThrough(t, k, e.dsn(), count)
		c := hybridClient(t, db)
		ctx, cancel := context.WithCancel(testContext(t))
		defer cancel()
		const waiters = 1000
		errs := make(chan error, waiters)
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() {
				next, err := c.Acquire(ctx, e.schema)
				if err == nil {
					err = next.Release(context.WithoutCancel(ctx))
				}
				errs <- err
			})
		}
		eventually(t, "the first to wait", func() bool { return e.waiting() == 1 })
		count.Reset()
		seconds := sooner(10, 5)
		most := 0
		for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			most = max(most, db.Stats().InUse)
		}
		if statements, _ := count.Count(); most != 1 || statements > seconds {
			t.Errorf("%d connections, %d statements in %d s; want 1, and one a second at the most", most, statements, seconds)
		}
		// Some of them have it, one after the other, and the rest give up.
		mustRelease(t, l)
		for range 200 {
			if err := await(t, "a waiter", errs); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		wg.Wait()
		close(errs)
		for err := range errs {
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("a waiter that gave up: %v", err)
			}
		}
		e.noLock()
	})
}

// TestWaiterForARowGivesTheLockBack (H9): others would see a lock without a lease.
func TestWaiterForARowGivesTheLockBack(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		table := client(t, e.open(t, k, e.dsn()))
		l := mustTry(t, table, e.schema)
		var looks atomic.Int64
		c := hybridClient(t, e.hybridPool(t, k, e.dsn()), pglease.WithPollInterval(400*time.Millisecond),
			pglease.WithObserver(observer(func(ev pglease.Event) {
				if ev.Kind == pglease.EventAcquire {
					looks.Add(1)
				}
			})))
		got := make(chan *pglease.Lease, 1)
		ctx := testContext(t)
		go func() {
			next, err := c.Acquire(ctx, e.schema)
			if err != nil {
				t.Error(err)
			}
			got <- next
		}()
		locked, samples := 0, 0
		eventually(t, "several looks", func() bool {
			if looks.Load() > 0 {
				samples++
				if e.holderPID() != 0 {
					locked++
				}
			}
			return looks.Load() >= 5
		})
		if locked*4 > samples {
			t.Errorf("the waiter had the advisory lock in %d of %d looks", locked, samples)
		}
		mustRelease(t, l)
		mustRelease(t, await(t, "the waiter", got))
	})
}
