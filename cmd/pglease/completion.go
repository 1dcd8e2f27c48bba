package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pglease/pglease-go/pglease"
)

// completeName offers the names that have rows, if the database can be asked quickly, and nothing otherwise. (The command
// "completion" itself is cobra's.)
func (a *app) completeName(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var names []string
	_ = a.withClient(ctx, func(ctx context.Context, c *pglease.Client) error {
		opts := []pglease.ListOption{pglease.WithExpired(), pglease.WithLimit(200)}
		if begun != "" {
			opts = append(opts, pglease.WithPrefix(begun))
		}
		infos, err := c.List(ctx, opts...)
		for _, i := range infos {
			names = append(names, i.Name)
		}
		return err
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// noArgs refuses every argument. What follows the name of a command that has others below it was meant as one of those.
func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasSubCommands():
		return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
	}
	return fmt.Errorf("%q takes no arguments, and there is %q", cmd.CommandPath(), args[0])
}

// strict makes cobra's own commands, help and completion, refuse words that they do not know. By themselves they show some help
// then, and end as if all were well.
func strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if found, rest, err := root.Find(args); err != nil || found.HasSubCommands() && len(rest) > 0 {
					return fmt.Errorf("there is no command %q to help with", strings.Join(args, " "))
				}
				return nil
			}
		case "completion":
			// A command that does nothing itself shows its help before its arguments are looked at.
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
			cmd.Args = noArgs
			for _, shell := range cmd.Commands() {
				shell.Args = noArgs
			}
		}
	}
}
