package driver_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/wire"
	"github.com/pglease/pglease-go/pglease"
)

func namesUpTo(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("partition %02d", i))
	}
	return names
}

// A claimant is a worker with a client of its own that wants any one of many names.
type claimant struct {
	client *pglease.Client
	count  *wire.Counter
	lease  *pglease.Lease
}

// claimants are connected, and have prepared what they will send: with other names.
func claimants(t *testing.T, e *env, k kind, n int, opts ...pglease.Option) (all []*claimant) {
	t.Helper()
	for range n {
		w := &claimant{count: &wire.Counter{}}
		db := e.openThrough(t, k, e.dsn(), w.count)
		db.SetMaxOpenConns(2) // no connection is kept for heartbeats: all statements are attempts
		w.client = client(t, db, opts...)
		for range 2 {
			l, err := w.client.TryAcquireAny(testContext(t), []string{fmt.Sprintf("%p", w), fmt.Sprintf("%p too", w)})
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Release(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}
		w.count.Reset()
		all = append(all, w)
	}
	return all
}

// pollOnce has each worker without a lease try once, all of them at once. It returns how many have one then, and the most statements
// that a worker has sent.
func pollOnce(t *testing.T, workers []*claimant, names []string) (claimed, statements int) {
	t.Helper()
	var wg sync.WaitGroup
	for _, w := range workers {
		if w.lease != nil {
			continue
		}
		w.count.Reset()
		wg.Go(func() {
			var err error
			w.lease, err = w.client.TryAcquireAny(testContext(t), names)
			if err != nil && !errors.Is(err, pglease.ErrHeld) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	holders := map[string]bool{}
	for _, w := range workers {
		if w.lease == nil {
			continue
		}
		claimed++
		if holders[w.lease.Name()] {
			t.Errorf("%q is held twice", w.lease.Name())
		}
		holders[w.lease.Name()] = true
		n, _ := w.count.Count()
		statements = max(statements, n)
	}
	return claimed, statements
}

// Twenty workers want one of twenty names each. All of them have one after two polls, and no worker sends more than one statement in
// a poll: whether the names have rows, or are new to the table.
func TestTwentyWorkersClaimTwentyNamesWithinTwoPolls(t *testing.T) {
	noGoroutineLeft(t)
	for _, k := range two {
		for _, mode := range modes {
			for _, fresh := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/fresh=%v", k.name, mode.name, fresh), func(t *testing.T) {
					e := newEnv(t).table()
					names := namesUpTo(20)
					if !fresh {
						c := client(t, e.open(t, k, e.dsn()))
						for _, name := range names {
							tryOnce(t, c, name)
						}
					}
					workers := claimants(t, e, k, len(names), mode.opts...)
					polls, claimed := 0, 0
					for claimed < len(names) && polls < 2 {
						var statements int
						claimed, statements = pollOnce(t, workers, names)
						polls++
						if statements > 1 {
							t.Errorf("a worker sent %d statements in a poll", statements)
						}
					}
					if claimed < len(names) {
						t.Errorf("%d of %d names claimed after %d polls", claimed, len(names), polls)
					}
					releaseAll(t, workers)
				})
			}
		}
	}
}

func releaseAll(t *testing.T, workers []*claimant) {
	t.Helper()
	var wg sync.WaitGroup
	for _, w := range workers {
		if w.lease == nil {
			continue
		}
		wg.Go(func() {
			if err := w.lease.Release(testContext(t)); err != nil {
				t.Error(err)
			}
			w.lease = nil
		})
	}
	wg.Wait()
}

// Ten workers claim one of twenty names, a thousand times each: no name is claimed twice as often as another, although none has a
// row at first.
func TestClaimsAreSpreadOverTheNames(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		workers, rounds := 10, 1000
		if k.name == libpq.name {
			rounds = 200 // it is slower, and the choice is the server's
		}
		names := namesUpTo(20)
		var mu sync.Mutex
		claims := map[string]int{}
		var wg sync.WaitGroup
		for _, w := range claimants(t, e, k, workers) {
			wg.Go(func() {
				for range rounds {
					l, err := w.client.TryAcquireAny(testContext(t), names)
					if err != nil { // ErrHeld too: there are twice as many names as workers
						t.Error(err)
						return
					}
					mu.Lock()
					claims[l.Name()]++
					mu.Unlock()
					if err := l.Release(testContext(t)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		least, most := workers*rounds, 0
		for _, name := range names {
			least, most = min(least, claims[name]), max(most, claims[name])
		}
		if most > 2*least {
			t.Errorf("claimed from %d to %d times: %v", least, most, claims)
		}
	})
}

// Any number of clients ask for overlapping sets of names in any order, some names twice: nobody deadlocks, each has all of its
// names and each name once, and nobody has one that another has (H7).
func TestAcquireAllInAnyOrderNeverDeadlocks(t *testing.T) {
	noGoroutineLeft(t)
	for _, k := range two {
		for _, mode := range modes {
			t.Run(k.name+"/"+mode.name, func(t *testing.T) {
				t.Parallel()
				const workers, rounds = 8, 8
				e := newEnv(t).table()
				all := namesUpTo(6)
				holders := make([]atomic.Int32, len(all))
				seed := uint64(time.Now().UnixNano())
				t.Logf("seed %d", seed)
				var wg sync.WaitGroup
				for i := range workers {
					db := e.open(t, k, e.dsn())
					db.SetMaxOpenConns(len(all) + 2)
					c := client(t, db, mode.opts...)
					rnd := rand.New(rand.NewPCG(seed, uint64(i)))
					wg.Go(func() {
						for range rounds {
							chosen := rnd.Perm(len(all))[:2+rnd.IntN(len(all)-1)]
							var names []string
							for _, n := range chosen {
								names = append(names, all[n])
							}
							names = append(names, names[rnd.IntN(len(names))]) // one of them twice
							leases, err := c.AcquireAll(testContext(t), names)
							if err != nil {
								t.Errorf("AcquireAll(%q): %v", names, err)
								return
							}
							if len(leases) != len(chosen) {
								t.Errorf("AcquireAll(%q): %d leases", names, len(leases))
							}
							for _, n := range chosen {
								if holders[n].Add(1) != 1 {
									t.Errorf("%q is held twice", all[n])
								}
							}
							for _, n := range chosen {
								holders[n].Add(-1)
							}
							if err := leases.Release(testContext(t)); err != nil {
								t.Errorf("releasing %q: %v", names, err)
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// All or none: while one name is held elsewhere, the others are free for others again and again, and after the end of the context
// nothing stays held. Hybrid refuses more names than its pool has connections, at once, but not one name said often.
func TestAcquireAllIsAllOrNone(t *testing.T) {
	noGoroutineLeft(t)
	for _, k := range two {
		for _, mode := range modes {
			t.Run(k.name+"/"+mode.name, func(t *testing.T) {
				e := newEnv(t).table()
				db := e.open(t, k, e.dsn())
				db.SetMaxOpenConns(4)
				c := client(t, db, mode.opts...)
				other := client(t, e.open(t, k, e.dsn()), mode.opts...)
				held, err := other.TryAcquire(testContext(t), "c")
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(testContext(t), time.Second)
				defer cancel()
				leases, err := c.AcquireAll(ctx, []string{"c", "b", "a"})
				if leases != nil || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("AcquireAll while one is held: %v, %v", leases, err)
				}
				for _, name := range []string{"a", "b"} {
					l, err := other.Acquire(testContext(t), name)
					if err != nil {
						t.Fatalf("%q after that: %v", name, err)
					}
					if err := l.Release(testContext(t)); err != nil {
						t.Error(err)
					}
				}
				if err := held.Release(testContext(t)); err != nil {
					t.Error(err)
				}
				if mode.name != "hybrid" {
					return
				}
				_, err = c.AcquireAll(testContext(t), []string{"a", "b", "c", "d", "e"})
				if !errors.As(err, new(*pglease.UnsupportedError)) {
					t.Errorf("5 names on 4 connections: %v", err)
				}
				leases, err = c.AcquireAll(testContext(t), []string{"a", "a", "a", "b", "a", "a"})
				if err != nil || len(leases) != 2 {
					t.Fatalf("2 names in 6 words: %d leases, %v", len(leases), err)
				}
				if err := leases.Release(testContext(t)); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
