//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"

	"github.com/pglease/pglease-go/driver_test/internal/wire"
	"github.com/pglease/pglease-go/driver_test/pgserver"
)

var (
	rounds    = flag.Int("rounds", 40, "rounds of each race")
	slice     = flag.Duration("slice", 250*time.Millisecond, "for how long each contender runs in a round")
	cycles    = flag.Int("cycles", 1000, "acquires and releases over which statements and WAL are counted")
	window    = flag.Duration("window", 30*time.Second, "for how long leases are held, and waited for, while statements are counted")
	leases    = flag.String("leases", "1,100,10000", "how many leases one client holds")
	waiters   = flag.Int("waiters", 1000, "goroutines of one process that wait for one name")
	processes = flag.String("processes", "1,4,16", "processes that wait for one name")
)

// drivers are both, by the name that sql.Open knows.
var drivers = []string{"pgx", "postgres"}

// goroutines is what a race is run with beside 1.
const goroutines = 16

// speed prints the tables of section 9 that are no matter of processes which die.
func speed(ctx context.Context, server *pgserver.Server, database string) (err error) {
	m := &meter{ctx: ctx, dsn: server.DSN(pgserver.Database(database))}
	if m.admin, err = open("postgres", m.dsn, nil); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.admin.Close()) }()
	if err := m.prepare(); err != nil {
		return err
	}
	if err := head(m.ctx, m.admin); err != nil {
		return err
	}
	for _, t := range []struct {
		what  string
		print func() error
	}{
		{"acquire and release, 1 goroutine", func() error { return m.acquire(1) }},
		{fmt.Sprintf("acquire and release, %d goroutines, each with a name of its own", goroutines), func() error { return m.acquire(goroutines) }},
		{"try on a held lease", m.try},
		{"cost of an operation", m.cost},
		{"cost as leases grow, TTL 30 s", m.grow},
		{"waiters of one process, on one name", m.wait},
		{"processes that wait for one name", m.waitApart},
	} {
		if !strings.Contains(t.what, *only) {
			continue
		}
		fmt.Printf("**%s**\n\n", strings.ToUpper(t.what[:1])+t.what[1:])
		if err := t.print(); err != nil {
			return fmt.Errorf("%s: %w", t.what, err)
		}
		fmt.Println()
	}
	return nil
}

// A meter is what a table is made with.
type meter struct {
	ctx   context.Context
	dsn   string
	admin *sql.DB
}

func (m *meter) prepare() error {
	if err := (&bench{ctx: m.ctx, admin: m.admin}).prepare(); err != nil {
		return err
	}
	if _, err := m.admin.ExecContext(m.ctx, floorSchema); err != nil {
		return err
	}
	return riverSchema(m.ctx, m.admin)
}

// head says of what, by what and where the tables below it were made.
func head(ctx context.Context, admin *sql.DB) error {
	var version string
	if err := admin.QueryRowContext(ctx, "SHOW server_version").Scan(&version); err != nil {
		return err
	}
	commit, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		commit = []byte("unknown commit")
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%s, PostgreSQL %s, %s, %d cores, commit %s; load average before: %s; made by `go run ./bench %s`\n\n",
		time.Now().UTC().Format(time.DateOnly), version, runtime.Version(), runtime.NumCPU(), strings.TrimSpace(string(commit)),
		strings.Join(strings.Fields(string(load) + " - - -")[:3], " "), strings.Join(os.Args[1:], " "))
	return nil
}

// open opens a pool. If count is not nil, it counts what the pool sends. Connections that were needed once are kept: the default of
// database/sql, two, would measure how fast one connects.
func open(driver, dsn string, count *wire.Counter) (*sql.DB, error) {
	db, err := connect(driver, dsn, count)
	if err == nil {
		db.SetMaxIdleConns(150)
	}
	return db, err
}

func connect(driver, dsn string, count *wire.Counter) (*sql.DB, error) {
	if driver == "pgx" {
		c, err := pgx.ParseConfig(dsn)
		if err != nil {
			return nil, err
		}
		if count != nil {
			c.DialFunc = count.DialContext
		}
		return stdlib.OpenDB(*c), nil
	}
	c, err := pq.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	if count != nil {
		c.Dialer(count)
	}
	return sql.OpenDB(c), nil
}

// nameOf says a driver's name as people know it.
func nameOf(driver string) string {
	return map[string]string{"pgx": "pgx", "postgres": "lib/pq"}[driver]
}
