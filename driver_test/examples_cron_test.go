package driver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/pglease/pglease-go/pglease"
)

// onOneMachine is for cron.WithChain and cron.NewChain: of all processes that start the job at a time, one runs it. A job has no
// context, so it does not learn of a loss while it runs; afterwards it is logged.
func onOneMachine(ctx context.Context, client *pglease.Client, name string, log cron.Logger, opts ...pglease.DoOption) cron.JobWrapper {
	return func(job cron.Job) cron.Job {
		run := client.Singleton(name, func(context.Context) error { job.Run(); return nil }, append(opts, pglease.SkipIfHeld())...)
		return cron.FuncJob(func() {
			if err := run(ctx); err != nil {
				log.Error(err, "cron job", "lease", name)
			}
		})
	}
}

// A cronLog passes errors on.
type cronLog chan error

func (cronLog) Info(string, ...any)                   {}
func (l cronLog) Error(err error, _ string, _ ...any) { l <- err }

// A quick job that three schedulers start at each full second runs once in a minimum hold, although they are a little apart (W7).
func TestCronJobRunsOnOneMachine(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		ctx, cancel := context.WithCancel(testContext(t))
		defer cancel()
		errs := make(cronLog, 100)
		const minHold = 700 * time.Millisecond
		began := make(chan time.Time, 100)
		for range 3 {
			c := client(t, e.open(t, k, e.dsn()))
			s := cron.New(cron.WithSeconds(), cron.WithChain(onOneMachine(ctx, c, "report", errs, pglease.WithMinHold(minHold))))
			if _, err := s.AddFunc("* * * * * *", func() {
				if info, err := c.Get(ctx, "report"); err != nil {
					errs <- err
				} else {
					began <- info.AcquiredAt
				}
			}); err != nil {
				t.Fatal(err)
			}
			s.Start()
			defer func() { <-s.Stop().Done() }()
		}
		last := await(t, "a run", began)
		for range 3 {
			next := await(t, "a run", began)
			if gap := next.Sub(last).Abs(); gap < minHold {
				t.Errorf("two runs within %v", gap)
			}
			last = next
		}
		select {
		case err := <-errs:
			t.Errorf("a job failed: %v", err)
		default:
		}
	})
}

// A panic of the job frees the lease and goes on to cron.Recover; a loss is logged.
func TestCronJobThatFails(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		c := client(t, e.open(t, k, e.dsn()), pglease.WithTTL(3*time.Second))
		errs := make(cronLog, 100)
		chain := cron.NewChain(cron.Recover(errs), onOneMachine(testContext(t), c, "report", errs))

		chain.Then(cron.FuncJob(func() { panic("broken") })).Run()
		if err := await(t, "the panic", errs); err.Error() != "broken" {
			t.Errorf("logged %v", err)
		}
		chain.Then(cron.FuncJob(func() {
			e.change(t, "UPDATE pglease_leases SET expires_at = clock_timestamp() WHERE task_name = $1", "report")
		})).Run()
		if err := await(t, "the loss", errs); !errors.Is(err, pglease.ErrLost) {
			t.Errorf("logged %v", err)
		}
		tryOnce(t, c, "report")
	})
}
