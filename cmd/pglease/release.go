package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pglease/pglease-go/pglease"
)

func (a *app) releaseCommand() *cobra.Command {
	var force, yes bool
	var token int64
	cmd := &cobra.Command{
		Use:   "release NAME --force",
		Short: "Take a lease away from its holder",
		Long: `Ends the term that the lease of NAME is in, for an operator who knows that its holder is gone or must stop. It says who holds
it and asks; --yes answers. If another term has begun since it asked, it changes nothing and ends with exit code 75.

The holder learns of it at its next heartbeat, a third of its TTL later at the most, and may act until then: make sure that it
does not, or that its writes are guarded (Lease.CheckTx, or the token). A command of "pglease run" is ended then.
A lease that a live holder releases by itself needs nothing of this.`,
		Example: `  pglease release nightly-report --force
  pglease release nightly-report --force --yes --token 1795979637001018   # only if it is still that term`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !force {
				return usage("only its holder can release a lease in order: to take it away, add --force")
			}
			if a.verbose == 0 {
				a.verbose = -1 // the library warns of every forced release, and here it is what was asked for
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *pglease.Client) error {
				info, err := c.Get(ctx, args[0])
				if err != nil {
					return err
				}
				if cmd.Flags().Changed("token") && info.Token != token {
					return otherToken(info, token)
				}
				return a.takeAway(ctx, c, info, yes)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&force, "force", false, "take it away from its holder")
	f.BoolVar(&yes, "yes", false, "do not ask")
	f.Int64Var(&token, "token", 0, "only if the term has this token")
	return cmd
}

// takeAway ends the term that info shows, and no other.
func (a *app) takeAway(ctx context.Context, c *pglease.Client, info pglease.Info, yes bool) error {
	if info.Expired() {
		fmt.Fprintf(a.out, "%s is free: nothing to do\n", printable(info.Name))
		return nil
	}
	if !yes {
		if !isTerminal(os.Stdin) {
			return usage("nobody can be asked, since standard input is not a terminal: add --yes, and --token %d so that it is this term", info.Token)
		}
		if err := describe(a.console, info); err != nil {
			return err
		}
		fmt.Fprintf(a.console, "The holder may act until its next heartbeat. Take the lease away from it? (yes/no): ")
		answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		if answer := strings.ToLower(strings.TrimSpace(answer)); answer != "yes" && answer != "y" {
			return exit(codeNo, "nothing was changed")
		}
	}
	// A Python worker that took over has left the token as it was: look at the whole term, as late as can be.
	now, err := c.Get(ctx, info.Name)
	if err != nil {
		return err
	}
	if now.Token != info.Token || now.Owner != info.Owner || !now.AcquiredAt.Equal(info.AcquiredAt) {
		return changed(now)
	}
	ended, err := c.ForceRelease(ctx, info.Name, pglease.IfToken(info.Token))
	var held *pglease.HeldError
	if errors.As(err, &held) {
		return changed(held.Info)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "%s is free; it was held by %s, token %d, %s\n", printable(ended.Name), printable(ended.Owner), ended.Token,
		printable(who(ended)))
	return nil
}

// who says which process a term belongs to.
func who(i pglease.Info) string {
	var words []string
	for _, k := range []string{"host", "pid", "program"} {
		if v := i.Metadata[k]; v != "" {
			words = append(words, k+" "+v)
		}
	}
	if len(words) == 0 {
		return "which has said nothing of itself"
	}
	return strings.Join(words, " ")
}

// otherToken tells of a term that has not the token that --token names. Whether there was such a term is not known: of those
// before nothing is kept.
func otherToken(now pglease.Info, token int64) error {
	if now.Expired() {
		return exit(codeHeld, "nothing was changed: nobody holds %q, and its last term has the token %d, not %d", now.Name, now.Token, token)
	}
	return exit(codeHeld, "nothing was changed: the term of %q has the token %d, not %d, and is held by %s", now.Name, now.Token, token, now.Owner)
}

// changed tells that the term which was asked about is over.
func changed(now pglease.Info) error {
	if now.Expired() {
		return exit(codeHeld, "nothing was changed: that term of %q is over, and nobody holds it", now.Name)
	}
	return exit(codeHeld, "nothing was changed: that term of %q is over, and %s holds it now (token %d)", now.Name, now.Owner, now.Token)
}
