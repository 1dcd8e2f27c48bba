//go:build unix

// Command bench measures what design.md, section 9, sets bars for: with a real server and both drivers, in one run: how fast leases
// are acquired and what they cost beside the barest statements and beside peers, and, with real processes, hand-over, failover and
// loss. It prints tables for driver_test/README.md. Run it with "make bench", or one part of it alone: "go run ./bench -speed", "go run ./bench -faults".
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

var (
	kills     = flag.Int("kills", 100, "holders to kill, for each way of taking over")
	handovers = flag.Int("handovers", 1000, "clean hand-overs")
	losses    = flag.Int("losses", 50, "sessions to terminate and sockets to reset")
	crashes   = flag.Int("crashes", 5, "crashes of the server")
	stops     = flag.Int("stops", 5, "holders to stop, and partitions")
	only      = flag.String("only", "", "part of the name of the rows and tables to measure")
	unsynced  = flag.Bool("unsynced", false, "run the server without fsync: what is left are the processors, not the disk. No bar is meant for it")
	flush     = flag.Duration("flush", 0, "have the server wait so long at each commit, in whole microseconds, as a slower disk would")
	fast      = flag.Bool("speed", false, "measure speed and cost alone: no hand-over, failover, loss")
	faults    = flag.Bool("faults", false, "measure hand-over, failover and loss alone")
)

func main() {
	if os.Getenv(workerEnv) != "" {
		if err := work(); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// A row measures one thing with one driver.
type row struct {
	what string
	bar  string // from design.md, section 9
	runs func(*bench) ([]time.Duration, error)
}

// A bench is what a row has to work with.
type bench struct {
	ctx    context.Context
	server *pgserver.Server
	driver string
	dsn    string
	admin  *sql.DB
}

func run(ctx context.Context) error {
	// Sixteen connections for each contender and driver, all open at once.
	options := []pgserver.Option{pgserver.WithKinds(pgserver.Local), pgserver.WithLog(os.Stderr), pgserver.WithSetting("max_connections", "500")}
	if *unsynced {
		options = append(options, pgserver.WithSetting("fsync", "off"))
	}
	if *flush > 0 {
		options = append(options, pgserver.WithSetting("commit_delay", strconv.FormatInt(flush.Microseconds(), 10)), pgserver.WithSetting("commit_siblings", "0"))
	}
	server, err := pgserver.Start(ctx, options...)
	if err != nil {
		return err
	}
	defer server.Stop()
	name, err := server.CreateDatabase(ctx)
	if err != nil {
		return err
	}
	if !*faults {
		if err := speed(ctx, server, name); err != nil || *fast {
			return err
		}
	}
	admin, err := sql.Open("pgx", server.DSN(pgserver.Database(name)))
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := head(ctx, admin); err != nil {
		return err
	}
	fmt.Println("| what, hybrid | driver | n | p50 | p99 | max | bar |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, r := range rows {
		for _, driver := range []string{"pgx", "postgres"} {
			if !strings.Contains(r.what, *only) {
				continue
			}
			b := &bench{ctx: ctx, server: server, driver: driver, dsn: server.DSN(pgserver.Database(name))}
			if b.admin, err = sql.Open("pgx", b.dsn); err != nil {
				return err
			}
			if err := b.prepare(); err != nil {
				return err
			}
			times, err := r.runs(b)
			_ = b.admin.Close()
			if err != nil {
				return fmt.Errorf("%s, %s: %w", r.what, driver, err)
			}
			print(r, driver, times)
		}
	}
	return nil
}

func (b *bench) prepare() error {
	c, err := pglease.New(b.admin)
	if err != nil {
		return err
	}
	if err := c.EnsureSchema(b.ctx); err != nil {
		return err
	}
	return c.Close(b.ctx)
}

func print(r row, driver string, times []time.Duration) {
	slices.Sort(times)
	at := func(q float64) time.Duration { return times[min(len(times)-1, int(q*float64(len(times))))] }
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
	fmt.Printf("| %s | %s | %d | %v | %v | %v | %s |\n", r.what, map[string]string{"pgx": "pgx", "postgres": "lib/pq"}[driver],
		len(times), round(at(0.5)), round(at(0.99)), round(times[len(times)-1]), r.bar)
}
