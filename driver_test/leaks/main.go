// Command leaks acquires and releases leases a million times on each driver and backend, and looks at what could be left behind:
// memory, goroutines, connections, rows and index entries of the server, advisory locks. It prints a table, and fails if one of them
// has grown. Run it with "make leaks", or "make leaks CYCLES=20000" for a short look.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
)

func main() {
	cycles := flag.Int("cycles", 1_000_000, "acquires and releases on each driver and backend")
	only := flag.String("only", "", `part of the driver and the backend, such as "lib/pq" or "pgx, hybrid"`)
	all := flag.Bool("samples", false, "print every sample, not the two medians alone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *cycles, *only, *all); err != nil {
		fmt.Fprintln(os.Stderr, "leaks:", err)
		os.Exit(1)
	}
}

// run makes its own server, measures, and prints to w. It returns an error if something has grown.
func run(ctx context.Context, w io.Writer, cycles int, only string, all bool) (err error) {
	// What is left behind does not depend on the disk, and a million flushes take hours on a slow one.
	server, err := pgserver.Start(ctx, pgserver.WithSetting("fsync", "off"), pgserver.WithLog(os.Stderr))
	if err != nil {
		return err
	}
	defer server.Stop()
	version, err := server.Version(ctx)
	if err != nil {
		return err
	}
	commit, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		commit = []byte("unknown commit")
	}
	fmt.Fprintf(w, "%s, PostgreSQL %d, %s, %d cores, commit %s, fsync off; made by `go run ./leaks -cycles %d`\n\n", time.Now().UTC().Format(time.DateOnly),
		version, runtime.Version(), runtime.NumCPU(), strings.TrimSpace(string(commit)), cycles)
	if !all {
		head(w)
	}
	var grown []string
	for _, driver := range []string{"pgx", "postgres"} {
		for _, hybrid := range []bool{false, true} {
			r := &series{server: server, driver: driver, hybrid: hybrid}
			if !strings.Contains(r.String(), only) {
				continue
			}
			if err := r.run(ctx, cycles); err != nil {
				return fmt.Errorf("%s: %w", r, err)
			}
			if all {
				r.printSamples(w)
				head(w)
			}
			worse := r.judge()
			r.print(w, len(worse) == 0)
			grown = append(grown, worse...)
		}
	}
	if len(grown) > 0 {
		return fmt.Errorf("not flat:\n\t%s", strings.Join(grown, "\n\t"))
	}
	return nil
}
