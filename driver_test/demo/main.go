// Demo shows on a real PostgreSQL what a lease is good for: three processes share one job, one of them is killed in the
// middle of it, another is stopped and wakes up when its time is over, and the rows stay right.
//
// Run it with "make demo". It takes about half a minute, leaves nothing behind, and exits with 1 if the rows are wrong.
// The job is in job.go, what a worker does in worker.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// limit ends a demo that hangs.
const limit = 90 * time.Second

func main() {
	if name := os.Getenv(workerVariable); name != "" {
		os.Exit(workerMain(name))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the demo has not ended within %v", limit))
	defer cancel()
	if err := run(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w (%w)", cause, err)
		}
		fmt.Printf("\nThe demo failed: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	fmt.Print(`pglease: one of many processes does the job, and PostgreSQL decides which.

Three accounts hold 1000 coins each, 3000 together. Once a second every worker process
wants to do the same job: move 10 coins from one account to another, by reading both
balances, thinking, and writing them one after the other. Two at a time ruin the sum.
`)
	d, err := newDirector(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	for _, scene := range []func(context.Context) error{d.without, d.with, d.kill, d.stop, d.end} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	return nil
}
