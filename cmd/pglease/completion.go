package main

import (
	"context"
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
