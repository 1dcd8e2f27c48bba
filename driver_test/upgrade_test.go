package driver_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/pyworker"
	"github.com/pglease/pglease-go/pglease"
)

// A team is workers of all kinds in this process that use one name, inside a ring.
type team struct {
	t    *testing.T
	ctx  context.Context // ends when they should
	seed uint64
	fail func()
	wg   sync.WaitGroup

	mu     sync.Mutex
	rounds map[string]int
}

func newTeam(t *testing.T) *team {
	ctx, cancel := context.WithTimeout(testContext(t), 2*patience)
	tm := &team{t: t, ctx: ctx, fail: cancel, seed: uint64(time.Now().UnixNano()), rounds: map[string]int{}}
	t.Cleanup(func() { cancel(); tm.wg.Wait() })
	t.Logf("seed %d", tm.seed)
	return tm
}

// work repeats f until the end, and counts how often it was inside.
func (tm *team) work(kind string, stream uint64, f func(rnd *rand.Rand) (inside bool, err error)) {
	tm.wg.Go(func() {
		rnd := rand.New(rand.NewPCG(tm.seed, stream))
		for tm.ctx.Err() == nil {
			in, err := f(rnd)
			if err != nil {
				tm.t.Errorf("%s: %v", kind, err)
				tm.fail()
			}
			if in {
				tm.mu.Lock()
				tm.rounds[kind]++
				tm.mu.Unlock()
			}
			time.Sleep(time.Duration(rnd.IntN(10)) * time.Millisecond) // lets others come in
		}
	})
}

// came waits until workers of each kind have been inside so often.
func (tm *team) came(n int, kinds ...string) {
	tm.t.Helper()
	eventually(tm.t, fmt.Sprintf("%d rounds of %q", n, kinds), func() bool {
		tm.mu.Lock()
		defer tm.mu.Unlock()
		for _, kind := range kinds {
			if tm.rounds[kind] < n && tm.ctx.Err() == nil {
				return false
			}
		}
		return true
	})
}

// end ends the work and returns how often anybody was inside.
func (tm *team) end() (rounds int) {
	tm.fail()
	tm.wg.Wait()
	tm.t.Logf("rounds: %v", tm.rounds)
	for _, n := range tm.rounds {
		rounds += n
	}
	return rounds
}

// python has a Python worker take part, which sometimes leaves without a release, and sometimes cleans up.
func (tm *team) python(w *pyworker.Worker, stream uint64) {
	whole := context.WithoutCancel(tm.ctx)
	tm.work("python", stream, func(rnd *rand.Rand) (bool, error) {
		if rnd.IntN(10) == 0 {
			if _, err := w.Cleanup(whole); err != nil {
				return false, err
			}
		}
		ok, err := w.Acquire(whole, "ring")
		if err != nil && strings.Contains(err.Error(), "23505") {
			return false, nil // how Python loses a race of first inserts
		}
		if !ok || err != nil {
			return false, err
		}
		if err := inside(whole, w.DB, w.Owner, 0, time.Duration(rnd.IntN(5))*time.Millisecond); err != nil {
			return false, err
		}
		if rnd.IntN(40) == 0 {
			return true, nil // it leaves the lease to expire
		}
		return true, w.Release(whole, "ring")
	})
}

// golang has a Go worker take part.
func (tm *team) golang(e *env, k kind, mode string, opts []pglease.Option, stream uint64) {
	whole := context.WithoutCancel(tm.ctx)
	db := e.open(tm.t, k, e.dsn())
	c := client(tm.t, db, append([]pglease.Option{pglease.WithTTL(3 * time.Second)}, opts...)...)
	tm.work(mode, stream, func(rnd *rand.Rand) (bool, error) {
		l, err := c.TryAcquire(whole, "ring")
		if errors.Is(err, pglease.ErrHeld) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if err := inside(whole, db, mode, l.Token(), time.Duration(rnd.IntN(5))*time.Millisecond); err != nil {
			return false, err
		}
		return true, errors.Join(l.Err(), l.Release(whole))
	})
}

// TestTwentyClientsUpgradeTheTableUnderRunningWorkers: Python workers run on their own table, with its index; twenty clients of both
// drivers upgrade it at once under them, and Go workers of both backends join. Nobody is ever inside together with another (D1).
func TestTwentyClientsUpgradeTheTableUnderRunningWorkers(t *testing.T) {
	e := newEnv(t)
	e.exec(pythonTable)
	e.exec("CREATE INDEX idx_pglease_leases_expires_at ON pglease_leases (expires_at)")
	e.exec(ring)
	tm := newTeam(t)
	const workers, enough = 4, 15
	for i := range workers {
		w := e.python(t, fmt.Sprintf("python %d", i), 3*time.Second)
		w.Skew = time.Duration(i-1) * 30 * time.Millisecond // less than the safety margin
		tm.python(w, uint64(i))
	}
	tm.came(enough, "python")

	var upgrades sync.WaitGroup
	for i := range 20 {
		c := client(t, e.open(t, two[i%len(two)], e.dsn()), modes[i/2%len(modes)].opts...)
		upgrades.Go(func() {
			if err := c.EnsureSchema(context.WithoutCancel(tm.ctx)); err != nil {
				t.Errorf("an upgrade under running workers: %v", err)
			}
		})
	}
	upgrades.Wait()
	for i, mode := range modes {
		for j, k := range two {
			tm.golang(e, k, mode.name, mode.opts, uint64(100+10*i+j))
		}
	}
	tm.came(enough, "table", "hybrid")
	tm.mu.Lock()
	before := tm.rounds["python"]
	tm.mu.Unlock()
	tm.came(before+enough, "python") // they go on, on the new table
	e.judge(tm.end())
}

// A table with times that have no zone is refused, and what docs/python.md says to do about it works; Python workers take the new
// table as it is.
func TestPythonTableWithoutTimeZonesIsRefused(t *testing.T) {
	page, err := os.ReadFile("../docs/python.md")
	if err != nil {
		t.Fatal(err)
	}
	way := regexp.MustCompile("(?ms)^```sql\n(DROP TABLE .*?)^```").FindStringSubmatch(string(page))
	if way == nil {
		t.Fatal("docs/python.md does not say what to do")
	}
	each(t, two, func(t *testing.T, e *env, k kind) {
		e.exec("DROP TABLE pglease_leases")
		e.exec(strings.ReplaceAll(pythonTable, "timestamptz", "timestamp"))
		c := client(t, e.open(t, k, e.dsn()))
		err := c.EnsureSchema(testContext(t))
		var unsupported *pglease.UnsupportedError
		if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), "timestamp without time zone") {
			t.Fatalf("EnsureSchema: %v", err)
		}
		e.exec(way[1])
		if err := c.EnsureSchema(testContext(t)); err != nil {
			t.Fatal(err)
		}
		w := e.python(t, "python", time.Hour)
		pythonAcquire(t, w, "name")
		if _, err := c.TryAcquire(testContext(t), "name"); !errors.Is(err, pglease.ErrHeld) {
			t.Errorf("a Python worker's lease: %v", err)
		}
	})
}
