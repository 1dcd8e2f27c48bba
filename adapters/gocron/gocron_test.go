package pgleasegocron_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	pgleasegocron "github.com/pglease/pglease-go/adapters/gocron"
	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/pgleasetest"
)

func newClient(t *testing.T, store *pgleasetest.Memory, opts ...pglease.Option) *pglease.Client {
	t.Helper()
	c, err := pglease.New(nil, append(opts, pglease.WithBackend(store))...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A process is a scheduler that starts at the next full second of its own clock.
func newProcess(t *testing.T, option gocron.SchedulerOption, late time.Duration, job func(context.Context), opts ...gocron.JobOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(option)
	if err != nil {
		t.Fatal(err)
	}
	start := gocron.WithStartAt(gocron.WithStartDateTime(time.Now().Add(time.Second + late)))
	opts = append(opts, gocron.WithName("job"), start)
	if _, err := s.NewJob(gocron.DurationJob(time.Second), gocron.NewTask(job), opts...); err != nil {
		t.Fatal(err)
	}
	s.Start()
	return s
}

func shutdown(t *testing.T, schedulers ...gocron.Scheduler) {
	t.Helper()
	for _, s := range schedulers {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	}
}

// A counter counts the runs, and those that had company.
type counter struct {
	mu                  sync.Mutex
	runs, now, together int
}

func (c *counter) run(d time.Duration) {
	c.mu.Lock()
	c.runs++
	if c.now++; c.now > 1 {
		c.together++
	}
	c.mu.Unlock()
	time.Sleep(d)
	c.mu.Lock()
	c.now--
	c.mu.Unlock()
}

func (c *counter) expect(t *testing.T, runs int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs != runs || c.together != 0 {
		t.Errorf("%d runs, %d of them beside another; want %d and 0", c.runs, c.together, runs)
	}
}

// Of three schedulers one runs the job each second, and the others are told who has it.
func TestLockerRunsAJobOnceForAllSchedulers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := pgleasetest.NewMemory()
		var runs counter
		var schedulers []gocron.Scheduler
		var mu sync.Mutex
		held, other := 0, 0
		listener := gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, pglease.ErrHeld) {
				held++
			} else {
				other++
			}
		}))
		for range 3 {
			client := newClient(t, store)
			defer func() { _ = client.Close(t.Context()) }()
			locker := pgleasegocron.NewLocker(client)
			schedulers = append(schedulers, newProcess(t, gocron.WithDistributedLocker(locker), 0,
				func(context.Context) { runs.run(100 * time.Millisecond) }, listener))
		}
		time.Sleep(10*time.Second + 500*time.Millisecond)
		runs.expect(t, 10)
		mu.Lock()
		defer mu.Unlock()
		if held != 20 || other != 0 {
			t.Errorf("%d runs skipped because the lease was held, %d for another reason; want 20 and 0", held, other)
		}
		shutdown(t, schedulers...)
	})
}

// A quick job does not run again on a machine whose clock is behind (W7), if a minimum hold says so.
func TestLockerWithMinHoldOutlastsClocksThatDiffer(t *testing.T) {
	for _, minHold := range []time.Duration{0, 800 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			store := pgleasetest.NewMemory()
			var runs counter
			var schedulers []gocron.Scheduler
			for i := range 3 {
				client := newClient(t, store)
				defer func() { _ = client.Close(t.Context()) }()
				locker := pgleasegocron.NewLocker(client, pglease.WithMinHold(minHold))
				schedulers = append(schedulers, newProcess(t, gocron.WithDistributedLocker(locker), time.Duration(i)*50*time.Millisecond,
					func(context.Context) { runs.run(time.Millisecond) }))
			}
			time.Sleep(10*time.Second + 500*time.Millisecond)
			if minHold == 0 {
				runs.expect(t, 30) // what the doc comment warns of
			} else {
				runs.expect(t, 10)
			}
			shutdown(t, schedulers...)
		})
	}
}

// A job can watch its lease; gocron itself cannot.
func TestJobLearnsOfALossFromItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := pgleasetest.NewMemory()
		client := newClient(t, store, pglease.WithTTL(3*time.Second))
		defer func() { _ = client.Close(t.Context()) }()
		locker := pgleasegocron.NewLocker(client)
		if locker.Lease("job") != nil {
			t.Error("a lease before the run")
		}
		told := make(chan struct{})
		var first sync.Once
		s := newProcess(t, gocron.WithDistributedLocker(locker), 0, func(ctx context.Context) {
			first.Do(func() { // gocron spins while it shuts down under a job, so that time stands still in the bubble
				store.Lose("job")
				lease := locker.Lease("job")
				<-lease.Done()
				if ctx.Err() != nil {
					t.Error("gocron ended the job's context: say so in doc.go")
				}
				if l := locker.Lease("job"); l == lease {
					t.Error("the lease after its loss")
				}
				close(told)
			})
		})
		<-told
		time.Sleep(500 * time.Millisecond)
		shutdown(t, s)
	})
}

// Shutdown ends the job's context, with which gocron unlocks: the name is free all the same (T2).
func TestShutdownFreesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := pgleasetest.NewMemory()
		client := newClient(t, store)
		defer func() { _ = client.Close(t.Context()) }()
		running := make(chan struct{}, 1)
		s := newProcess(t, gocron.WithDistributedLocker(pgleasegocron.NewLocker(client)), 0, func(ctx context.Context) {
			running <- struct{}{}
			<-ctx.Done()
		})
		<-running
		shutdown(t, s)
		synctest.Wait()
		if infos, err := client.List(t.Context()); err != nil || len(infos) != 0 {
			t.Errorf("held after the shutdown: %v, %v", infos, err)
		}
	})
}

// One scheduler runs all jobs, and another one goes on when it has lost its lease, or resigned.
func TestElectorHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := pgleasetest.NewMemory()
		var runs [2]counter
		var electors []*pgleasegocron.Elector
		var schedulers []gocron.Scheduler
		for i := range 2 {
			client := newClient(t, store, pglease.WithTTL(3*time.Second), pglease.WithPollInterval(100*time.Millisecond))
			defer func() { _ = client.Close(t.Context()) }()
			e := pgleasegocron.NewElector(t.Context(), client, "scheduler")
			synctest.Wait() // the first one leads
			electors = append(electors, e)
			schedulers = append(schedulers, newProcess(t, gocron.WithDistributedElector(e), 0,
				func(context.Context) { runs[i].run(10 * time.Millisecond) }))
		}
		if err := electors[0].IsLeader(t.Context()); err != nil || electors[0].Lease() == nil {
			t.Errorf("the first elector: %v", err)
		}
		if err := electors[1].IsLeader(t.Context()); !errors.Is(err, pgleasegocron.ErrNotLeader) || electors[1].Lease() != nil {
			t.Errorf("the second elector: %v", err)
		}
		time.Sleep(5*time.Second + 500*time.Millisecond)
		runs[0].expect(t, 5)
		runs[1].expect(t, 0)

		if err := electors[0].Stop(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(200 * time.Millisecond)
		if err := electors[1].IsLeader(t.Context()); err != nil {
			t.Errorf("after the first has resigned: %v", err)
		}
		time.Sleep(5 * time.Second)
		runs[0].expect(t, 5)
		runs[1].expect(t, 5)

		store.Fail(errors.New("connection refused")) // for longer than the TTL: nobody leads
		time.Sleep(4 * time.Second)
		if err := electors[1].IsLeader(t.Context()); !errors.Is(err, pgleasegocron.ErrNotLeader) {
			t.Errorf("during an outage: %v", err)
		}
		store.Fail(nil)
		time.Sleep(40 * time.Second) // the longest pause of a campaign is 30 s
		if err := electors[1].IsLeader(t.Context()); err != nil {
			t.Errorf("after an outage: %v", err)
		}
		shutdown(t, schedulers...)
		if err := electors[1].Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// What ends a campaign for good is told by IsLeader.
func TestElectorTellsWhyItHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, pgleasetest.NewMemory())
		e := pgleasegocron.NewElector(t.Context(), client, "")
		synctest.Wait()
		if err := e.IsLeader(t.Context()); !errors.Is(err, pgleasegocron.ErrNotLeader) || !errors.Is(err, pglease.ErrInvalidName) {
			t.Errorf("a bad name: %v", err)
		}
		e = pgleasegocron.NewElector(t.Context(), client, "scheduler")
		synctest.Wait()
		if err := client.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := e.IsLeader(t.Context()); !errors.Is(err, pgleasegocron.ErrNotLeader) || !errors.Is(err, pglease.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}
