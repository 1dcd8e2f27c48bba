package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/schema"
)

func (a *app) schemaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print, apply or check the lease table",
		Long: `The leases are rows of one table, pglease_leases, in the schema where the connection's search_path puts it. Whoever owns
it needs the right to create a table once; who only uses leases needs SELECT, INSERT, UPDATE and DELETE on it. Without one of the commands below, this help is shown, and the exit code is 0.`,
		Example: `  pglease schema apply
  pglease schema print --grants | sed s/pglease_worker/app/ | psql
  pglease schema check || echo "not yet"`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var grants bool
	show := &cobra.Command{
		Use:     "print",
		Short:   "Print the SQL that makes or upgrades the table, for psql or a migration tool",
		Example: `  pglease schema print > migrations/0042_pglease.sql`,
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			text := schema.Leases
			if grants {
				b, err := schema.FS.ReadFile("grants.sql")
				if err != nil {
					return exit(codeSystem, "%v", err)
				}
				text = string(b)
			}
			_, err := fmt.Fprint(a.out, text)
			return err
		},
	}
	show.Flags().BoolVar(&grants, "grants", false, "print the rights that a role needs which only uses leases")
	apply := &cobra.Command{
		Use:   "apply",
		Short: "Make the table, or upgrade it; does nothing if it is current",
		Long: `Makes the lease table, or upgrades it, the five-column table of the Python package included, while workers run. It does nothing,
and needs no right, if the table is current. Any number of machines may run it at once. It says which of these it was.`,
		Example: `  pglease schema apply`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), a.applySchema)
		},
	}
	check := &cobra.Command{
		Use:   "check",
		Short: "Say whether the table is there and current; exit code 78 if not",
		Long: `Looks whether the lease table is there and has the columns that this version needs. It changes nothing. Exit code 0 if so,
78 if not; pglease doctor looks at much more.`,
		Example: `  pglease schema check && ./start`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.open()
			if err != nil {
				return err
			}
			defer d.db.Close()
			t, err := readTable(cmd.Context(), d.db)
			if err != nil {
				return exit(codeDatabase, "%v", err)
			}
			if f := t.fit(); f.Severity != severityOK {
				return exit(codeUnfit, "%s: %s", f.Finding, f.Remedy)
			}
			_, err = fmt.Fprintf(a.out, "%s.pglease_leases is current\n", printable(t.schema))
			return err
		},
	}
	cmd.AddCommand(show, apply, check)
	return cmd
}

// applySchema makes the table ready, and says what had to be done. Of machines that do so at once, each may say that it was made.
func (a *app) applySchema(ctx context.Context, c *pglease.Client) error {
	before, unknown := readTable(ctx, a.database.db) // if it cannot be read, EnsureSchema says why
	if err := c.EnsureSchema(ctx); err != nil {
		return err
	}
	after, err := readTable(ctx, a.database.db)
	if err != nil || unknown != nil {
		_, err = fmt.Fprintln(a.out, "pglease_leases is current")
		return err
	}
	_, err = fmt.Fprintf(a.out, "%s.pglease_leases %s\n", printable(after.schema), became(before, after))
	return err
}

// became says what has made a table current.
func became(before, after leaseTable) string {
	switch {
	case before.schema == "":
		return "was made"
	case slices.Equal(before.columns, after.columns):
		return "is current already"
	}
	return "was upgraded"
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, as --version does",
		Example: `  pglease version`,
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.out, versionLine())
			return err
		},
	}
}

func versionLine() string {
	return fmt.Sprintf("pglease %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version is what go install was asked for, or (devel).
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return strings.TrimSpace(info.Main.Version)
}
