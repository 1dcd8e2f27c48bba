package driver_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/pyworker"
	"github.com/pglease/pglease-go/pglease"
)

// python returns a Python worker with a pool of its own.
func (e *env) python(t *testing.T, owner string, ttl time.Duration) *pyworker.Worker {
	t.Helper()
	return &pyworker.Worker{DB: e.open(t, libpq, e.dsn()), Owner: owner, TTL: ttl}
}

// pythonAcquire acquires a lease that must be free.
func pythonAcquire(t *testing.T, w *pyworker.Worker, name string) {
	t.Helper()
	if ok, err := w.Acquire(testContext(t), name); !ok || err != nil {
		t.Fatalf("the Python worker did not get %q: %v, %v", name, ok, err)
	}
}

func TestGoAndPythonRespectEachOther(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		ctx := testContext(t)
		c := client(t, e.open(t, k, e.dsn()))
		w := e.python(t, "python", time.Hour)

		pythonAcquire(t, w, "name")
		_, err := c.TryAcquire(ctx, "name")
		var held *pglease.HeldError
		if !errors.As(err, &held) || held.Owner != "python" || held.Token != 0 || held.Expired() {
			t.Fatalf("a try on a Python worker's lease: %v", err)
		}
		if err := w.Release(ctx, "name"); err != nil {
			t.Fatal(err)
		}
		first, err := c.TryAcquire(ctx, "name")
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := w.Acquire(ctx, "name"); ok || err != nil {
			t.Fatalf("the Python worker got a held lease: %v, %v", ok, err)
		}

		// A takeover by Python, after the lease has expired behind its holder's back.
		e.exec("UPDATE pglease_leases SET expires_at = clock_timestamp() WHERE task_name = 'name'")
		pythonAcquire(t, w, "name")
		if err := first.Renew(ctx); !errors.Is(err, pglease.ErrLost) {
			t.Errorf("renewing what Python has taken: %v", err)
		}
		if err := first.Release(ctx); !errors.Is(err, pglease.ErrLost) {
			t.Errorf("releasing what Python has taken: %v", err)
		}
		if ok, err := w.Heartbeat(ctx, "name"); !ok || err != nil {
			t.Errorf("the Python worker's lease after that: %v, %v", ok, err)
		}

		// Python deletes the row: the token goes on rising (O5).
		if err := w.Release(ctx, "name"); err != nil {
			t.Fatal(err)
		}
		second, err := c.TryAcquire(ctx, "name")
		if err != nil || second.Token() <= first.Token() {
			t.Fatalf("after a deletion: %v, token %d after %d", err, second.Token(), first.Token())
		}
	})
}

// TestPythonLooksAtAHeldRow: its FOR UPDATE makes a heartbeat fail, and no more (H6).
func TestPythonLooksAtAHeldRow(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		ctx := testContext(t)
		c := client(t, e.open(t, k, e.dsn()))
		w := e.python(t, "python", time.Hour)
		looked, err := c.TryAcquire(ctx, "looked at")
		if err != nil {
			t.Fatal(err)
		}
		other, err := c.TryAcquire(ctx, "other")
		if err != nil {
			t.Fatal(err)
		}
		h, err := w.Begin(ctx, "looked at")
		if err != nil || h.Mine {
			t.Fatalf("%+v, %v", h, err)
		}
		defer h.Rollback()
		mustBeBackend(t, "renewal of a locked row", looked.Renew(ctx), "", "locked")
		if err := errors.Join(looked.Err(), other.Renew(ctx)); err != nil {
			t.Error(err)
		}
		h.Rollback()
		if err := looked.Renew(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestPythonsOpenInsertBoundsATry: the one lock that a try waits for, until its own timeout. It leaves nothing behind.
func TestPythonsOpenInsertBoundsATry(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		ctx := testContext(t)
		c := client(t, e.open(t, k, e.dsn()))
		w := e.python(t, "python", time.Hour)
		h, err := w.Begin(ctx, "name")
		if err != nil || !h.Mine {
			t.Fatalf("%+v, %v", h, err)
		}
		defer h.Rollback()
		begun := time.Now()
		_, err = c.TryAcquire(ctx, "name")
		if err == nil || errors.Is(err, pglease.ErrHeld) {
			t.Errorf("a try beside an open INSERT: %v", err)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("the try took %v", took)
		}
		h.Rollback()
		l, err := client(t, e.open(t, k, e.dsn())).Acquire(ctx, "name")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// TestMixedFleet: Python workers run on their own table, Go upgrades it under them and joins; all exclude each other to the
// end. Some Python workers leave without a release.
func TestMixedFleet(t *testing.T) {
	e := newEnv(t)
	e.exec(pythonTable)
	e.exec(ring)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithTimeout(testContext(t), 2*patience)
	defer cancel()

	const workers, enough = 3, 40
	var mu sync.Mutex
	rounds := map[string]int{}
	count := func(who string) {
		mu.Lock()
		defer mu.Unlock()
		rounds[who]++
	}
	ran := func(who string, n int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return rounds[who] >= n || ctx.Err() != nil
		}
	}
	var wg sync.WaitGroup
	work := func(f func(rnd *rand.Rand) error, stream uint64) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, stream))
			for ctx.Err() == nil {
				if err := f(rnd); err != nil && ctx.Err() == nil {
					t.Error(err)
					cancel()
				}
				time.Sleep(time.Duration(rnd.IntN(10)) * time.Millisecond) // lets others come in
			}
		})
	}
	whole := context.WithoutCancel(ctx)
	for i := range workers {
		w := e.python(t, fmt.Sprintf("python %d", i), 2*time.Second)
		w.Skew = time.Duration(i-1) * 30 * time.Millisecond // less than the safety margin
		work(func(rnd *rand.Rand) error {
			ok, err := w.Acquire(whole, "ring")
			if err != nil && strings.Contains(err.Error(), "23505") {
				return nil // how Python loses a race of first inserts
			}
			if !ok || err != nil {
				return err
			}
			if err := inside(whole, w.DB, w.Owner, 0, time.Duration(rnd.IntN(5))*time.Millisecond); err != nil {
				return err
			}
			count("python")
			if rnd.IntN(40) == 0 {
				return nil // it leaves the lease to expire
			}
			return w.Release(whole, "ring")
		}, uint64(i))
	}
	eventually(t, "Python workers at work", ran("python", enough/2))
	if err := client(t, e.open(t, pgxStdlib, e.dsn())).EnsureSchema(whole); err != nil {
		t.Fatalf("the upgrade under running Python workers: %v", err)
	}
	for i := range workers {
		db := e.open(t, three[i%len(three)], e.dsn())
		c := client(t, db, pglease.WithTTL(2*time.Second))
		work(func(rnd *rand.Rand) error {
			l, err := c.TryAcquire(whole, "ring")
			if errors.Is(err, pglease.ErrHeld) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := inside(whole, db, "go", l.Token(), time.Duration(rnd.IntN(5))*time.Millisecond); err != nil {
				return err
			}
			count("go")
			return errors.Join(l.Err(), l.Release(whole))
		}, uint64(100+i))
	}
	poll(func() bool { return ran("go", enough)() && ran("python", 2*enough)() })
	cancel()
	wg.Wait()
	t.Logf("rounds: %v", rounds)
	if rounds["go"] < enough || rounds["python"] < 2*enough {
		t.Error("not all have taken part")
	}
	e.judge(rounds["go"] + rounds["python"])
}
