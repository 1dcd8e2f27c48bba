package driver_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// atMostEvery returns a function that runs fn if nobody, in all processes that use the name, has begun to within the last d; and
// otherwise returns nil at once. The clock is the server's. A failure counts as a run, and so does a crash, since the TTL is not
// shorter than d.
func atMostEvery(client *pglease.Client, name string, d time.Duration, fn func(context.Context) error) func(context.Context) error {
	return client.Singleton(name, fn, pglease.SkipIfHeld(), pglease.WithMinHold(d), pglease.WithTTL(max(d, pglease.DefaultTTL)))
}

// inTurn is atMostEvery for calls that must all be made: each waits until it may, or ctx ends.
func inTurn(client *pglease.Client, name string, d time.Duration, fn func(context.Context) error) func(context.Context) error {
	return client.Singleton(name, fn, pglease.Wait(), pglease.WithMinHold(d), pglease.WithTTL(max(d, pglease.DefaultTTL)))
}

// Several processes hammer two limits; under each name there is one run every d at the most, and all the time (W7).
func TestRateLimitHoldsOverAllWorkers(t *testing.T) {
	noGoroutineLeft(t)
	for _, k := range two {
		for _, mode := range modes {
			t.Run(k.name+"/"+mode.name, func(t *testing.T) {
				t.Parallel()
				const every, workers, enough = 150 * time.Millisecond, 5, 8
				e := newEnv(t).table()
				ctx, cancel := context.WithCancel(testContext(t))
				defer cancel()
				var mu sync.Mutex
				begun := map[string][]time.Time{}
				var wg sync.WaitGroup
				for range workers {
					c := client(t, e.open(t, k, e.dsn()), mode.opts...)
					for name, limited := range map[string]func(*pglease.Client, string, time.Duration, func(context.Context) error) func(context.Context) error{
						"skips": atMostEvery, "waits": inTurn,
					} {
						call := limited(c, name, every, func(ctx context.Context) error {
							info, err := c.Get(ctx, name)
							if err != nil {
								return err
							}
							mu.Lock()
							defer mu.Unlock()
							begun[name] = append(begun[name], info.AcquiredAt)
							return nil
						})
						wg.Go(func() {
							for ctx.Err() == nil {
								if err := call(ctx); err != nil && ctx.Err() == nil {
									t.Error(err)
									cancel()
								}
							}
						})
					}
				}
				poll(func() bool {
					mu.Lock()
					defer mu.Unlock()
					return ctx.Err() != nil || len(begun["skips"]) >= enough && len(begun["waits"]) >= enough
				})
				cancel()
				wg.Wait()
				for name, times := range begun {
					slices.SortFunc(times, time.Time.Compare)
					for i := range len(times) - 1 {
						if gap := times[i+1].Sub(times[i]); gap < every {
							t.Errorf("%s: two runs within %v", name, gap)
						}
					}
				}
				if len(begun["skips"]) < enough || len(begun["waits"]) < enough {
					t.Errorf("%d and %d runs, too few", len(begun["skips"]), len(begun["waits"]))
				}
			})
		}
	}
}

// A worker that dies in the middle has had its turn.
func TestRateLimitHoldsOverACrash(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		ctx := testContext(t)
		db := e.open(t, k, e.dsn())
		db.SetMaxOpenConns(2) // the client keeps no connection for itself
		dies := client(t, db)
		err := atMostEvery(dies, "name", time.Hour, func(ctx context.Context) error {
			return db.Close() // nothing reaches the server from now on
		})(ctx)
		if err == nil {
			t.Fatal("a release without a database")
		}
		ran := false
		c := client(t, e.open(t, k, e.dsn()))
		if err := atMostEvery(c, "name", time.Hour, func(context.Context) error { ran = true; return nil })(ctx); err != nil || ran {
			t.Errorf("after a crash: %v, ran: %v", err, ran)
		}
		info, err := c.Get(ctx, "name")
		if err != nil || info.Remaining() < 59*time.Minute {
			t.Errorf("held for another %v, %v", info.Remaining(), err)
		}
	})
}
