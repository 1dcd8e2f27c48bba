// Command pglease runs a command in one place at a time, through the PostgreSQL that is there already, and shows and mends the
// leases by which it does so. See pglease --help.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func main() {
	switch os.Args[0] {
	case guardianName:
		os.Exit(beGuardian())
	case gateName:
		os.Exit(beGate())
	}
	os.Exit(execute(os.Args[1:]))
}

// execute runs one command line and returns the exit code.
func execute(args []string) int {
	a := &app{console: newConsole(os.Stderr), out: os.Stdout}
	root := a.rootCommand()
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	if err == nil {
		return codeOK
	}
	var e *exitError
	if !errors.As(err, &e) { // cobra's own: an unknown command or flag, a missing argument
		e = usage("%v: see %q", err, cmd.CommandPath()+" --help")
	}
	a.tell(e)
	return e.code
}

// app is what all commands share.
type app struct {
	console   *console
	out       *os.File
	dsn       string
	verbose   int
	logFormat string
	database  *database // nil until it is opened
	row       beatRow   // of heartbeats that failed
	logged    bool      // the command logs, so its last word is a log entry too
}

// tell writes the one line that says why the command ends.
func (a *app) tell(e *exitError) {
	if e.text == "" {
		return
	}
	text := strings.Join(strings.Fields(a.database.redact(e.text)), " ") // pgx tells of several hosts on several lines
	if a.logged && e.code != codeUsage {
		a.logger().Error(text, "exit_code", e.code)
		return
	}
	fmt.Fprintf(a.console, "pglease: %s\n", printable(text))
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "pglease",
		Short: "Run a command in one place at a time, through PostgreSQL",
		Long: `pglease lets machines that share a PostgreSQL agree that one of them does a thing: it takes a lease, runs a command while
it holds it, and ends the command if the lease is lost.

The database is found as psql finds it: --dsn (a URL or keywords), else PGLEASE_DSN, else DATABASE_URL, else the variables
PGHOST, PGUSER, PGDATABASE, PGPASSWORD, PGSERVICE and their like, with ~/.pgpass and ~/.pg_service.conf. What is given to --dsn
can be seen in the list of processes: leave a password out of it. Prepared statements are not used unless the DSN asks for them
(default_query_exec_mode), so poolers of every mode will do, but for --hybrid.

` + codesHelp,
		Example: `  pglease schema apply                         # once
  pglease run nightly-report -- ./report.sh    # on every machine; one runs it
  pglease list`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().StringVar(&a.dsn, "dsn", "", "connection URL or keywords of the database (better: the variable PGLEASE_DSN)")
	root.PersistentFlags().CountVarP(&a.verbose, "verbose", "v", "log what happens to standard error; -vv for every detail")
	root.PersistentFlags().StringVar(&a.logFormat, "log-format", "auto", "text, json, or auto: text on a terminal, json elsewhere")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		switch a.logFormat {
		case "auto", "text", "json":
			return nil
		}
		return usage("--log-format %q: text, json or auto is needed", a.logFormat)
	}
	root.AddCommand(a.runCommand(), a.listCommand(), a.showCommand(), a.waitCommand(), a.releaseCommand(), a.gcCommand(),
		a.doctorCommand(), a.schemaCommand(), versionCommand(a))
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "run", "show", "wait", "release":
			cmd.ValidArgsFunction = a.completeName
		}
	}
	root.Version = version()
	root.SetVersionTemplate(versionLine())
	strict(root)
	return root
}
