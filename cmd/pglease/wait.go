package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pglease/pglease-go/pglease"
)

func (a *app) waitCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait NAME",
		Short: "Wait until nobody holds a lease",
		Long: `Waits until nobody holds the lease of NAME, and takes nothing: a moment later somebody may. To be the one who has it
then, use "pglease run NAME --wait". It looks once a second, and when the lease can expire. Exit code 0 when it is free, or has never
been taken; 124 when the time is over. A database that cannot be reached is waited for, unless it was so from the beginning.`,
		Example: `  pglease wait migrate --timeout 5m && ./start-application`,
		Args:    oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout < 0 {
				return usage("--timeout %v: it cannot be negative", timeout)
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			signals := relaySignals(cancel)
			defer signals.stop()
			return signals.asExit(a.withClient(ctx, func(ctx context.Context, c *pglease.Client) error {
				return a.awaitFree(ctx, c, args[0], timeout)
			}))
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "wait for so long at the most; 0 for as long as it takes")
	return cmd
}

func (a *app) awaitFree(ctx context.Context, c *pglease.Client, name string, timeout time.Duration) error {
	limited := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	line := waitLine{console: a.console, name: name}
	defer line.show()()
	var last pglease.Info
	answered := false
	for {
		info, err := c.Get(limited, name)
		var backend *pglease.BackendError
		switch {
		case errors.Is(err, pglease.ErrNotFound), err == nil && info.Expired():
			return nil
		case err == nil:
			last, answered = info, true
			line.answered(&pglease.HeldError{Info: info})
		case limited.Err() != nil: // below
		case !answered || !errors.As(err, &backend):
			return err
		}
		// A millisecond, since what is left has been rounded.
		select {
		case <-ctx.Done():
			return ctx.Err() // a signal: see RunE
		case <-limited.Done():
			if ctx.Err() != nil {
				continue
			}
			if !answered {
				return exit(codeTimeout, "timed out waiting: the database has not answered in that time")
			}
			if released(last) {
				return exit(codeTimeout, "timed out waiting: %q is released, and kept for another %s (minimum hold)", name, short(last.Remaining()))
			}
			return exit(codeTimeout, "timed out waiting: %q is held by %s, for another %s unless it is renewed", name, last.Owner, short(last.Remaining()))
		case <-time.After(min(time.Second, max(50*time.Millisecond, last.Remaining()+time.Millisecond))):
		}
	}
}

func (a *app) gcCommand() *cobra.Command {
	var age time.Duration
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Delete rows that nobody has needed for long",
		Long: `Deletes the rows of leases that expired or were released longer than --older-than ago, in small batches, and prints how many.
Nothing that is held is touched, and tokens go on rising for names that come back. Clients that hold leases do this by
themselves once an hour, for rows that expired a week ago: it is rarely needed.`,
		Example: `  pglease gc --older-than 24h`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if age < 0 {
				return usage("--older-than %v: it cannot be negative", age)
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *pglease.Client) error {
				n, err := c.DeleteExpired(ctx, age)
				if n > 0 || err == nil {
					fmt.Fprintf(a.out, "%s deleted\n", count(n, "row"))
				}
				return err
			})
		},
	}
	cmd.Flags().DurationVar(&age, "older-than", 7*24*time.Hour, "how long ago they must have expired")
	return cmd
}
