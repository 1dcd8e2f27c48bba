package main

import (
	"bytes"
	"context"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pglease/pglease-go/pglease"
)

func (a *app) listCommand() *cobra.Command {
	var (
		asArray, expired bool
		prefix           string
		limit            int
		watch            durationFlag
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the leases that are held",
		Long: `Shows the leases that are held, by name: who holds them, since when, for how long if they are not renewed, and when they were
renewed last. A heartbeat comes every third of the TTL: a last beat that is older than that tells of a holder in trouble.`,
		Example: `  pglease list
  pglease list --prefix billing/ --expired
  pglease list --watch        # until Ctrl-C
  pglease list --json | jq -r '.[] | select(.remaining_seconds < 5) | .name'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var opts []pglease.ListOption
			if prefix != "" {
				opts = append(opts, pglease.WithPrefix(prefix))
			}
			if cmd.Flags().Changed("limit") {
				if limit < 1 {
					return usage("--limit %d: at least 1 is needed", limit)
				}
				opts = append(opts, pglease.WithLimit(limit))
			}
			if expired {
				opts = append(opts, pglease.WithExpired())
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *pglease.Client) error {
				if watch.d == 0 {
					return a.listOnce(ctx, c, opts, asArray, false)
				}
				ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
				defer stop()
				return a.listAgain(ctx, c, opts, asArray, watch.d)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asArray, "json", false, "print a JSON array; with --watch one a line")
	f.BoolVar(&expired, "expired", false, "also those that have expired or were released")
	f.StringVar(&prefix, "prefix", "", "only names that begin so")
	f.IntVar(&limit, "limit", 0, "so many at the most")
	f.Var(&watch, "watch", "show them again and again, every second or every so often: --watch=5s")
	f.Lookup("watch").NoOptDefVal = "1s"
	return cmd
}

func (a *app) listOnce(ctx context.Context, c *pglease.Client, opts []pglease.ListOption, asArray, again bool) error {
	infos, err := c.List(ctx, opts...)
	if err != nil {
		return err
	}
	if asArray {
		rows := make([]leaseJSON, 0, len(infos))
		for _, i := range infos {
			rows = append(rows, asJSON(i))
		}
		return writeJSON(a.out, rows, !again)
	}
	var text bytes.Buffer
	if err := writeTable(&text, infos); err != nil {
		return err
	}
	if again {
		fmt.Fprintf(&text, "%s at %s\n", count(int64(len(infos)), "lease"), time.Now().Format("15:04:05"))
	}
	return a.page(text.String(), again && isTerminal(a.out))
}

// page writes a text, over the one before it if inPlace is set: each line is cleared to its end and what is below is cleared, but
// never the whole screen, which would flicker.
func (a *app) page(text string, inPlace bool) error {
	if inPlace {
		text = "\x1b[H" + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[J"
	}
	_, err := fmt.Fprint(a.out, text)
	return err
}

// listAgain lists until ctx ends. A database that is away for a while is shown as that.
func (a *app) listAgain(ctx context.Context, c *pglease.Client, opts []pglease.ListOption, asArray bool, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	if isTerminal(a.out) {
		fmt.Fprint(a.out, "\x1b[2J")
	}
	for first := true; ; first = false {
		err := a.listOnce(ctx, c, opts, asArray, true)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil && isTerminal(a.out):
			_ = a.page(printable(a.hideText(err.Error()))+"\n", true)
		case err != nil:
			a.logger().Warn("listing", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// A durationFlag is a flag whose value is a positive duration, and may be left out.
type durationFlag struct{ d time.Duration }

func (f *durationFlag) String() string { return "" }
func (f *durationFlag) Type() string   { return "duration" }

func (f *durationFlag) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < 100*time.Millisecond {
		return fmt.Errorf("a duration of at least 100ms is needed, as in 5s")
	}
	f.d = d
	return nil
}

func (a *app) showCommand() *cobra.Command {
	var asObject bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show all that is known of one lease",
		Long: `Shows the row of one lease, held or not: who holds it or held it last, and what that process has said of itself. Exit code 1 if
nobody has ever had a lease of that name, or its row was deleted since.`,
		Example: `  pglease show nightly-report
  pglease show nightly-report --json | jq .held`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *pglease.Client) error {
				info, err := c.Get(ctx, args[0])
				if err != nil {
					return err
				}
				if asObject {
					return writeJSON(a.out, asJSON(info), true)
				}
				return describe(a.out, info)
			})
		},
	}
	cmd.Flags().BoolVar(&asObject, "json", false, "print a JSON object")
	return cmd
}

// oneName wants exactly one argument.
func oneName(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("one NAME is needed, and there are %d", len(args))
	}
	return nil
}
