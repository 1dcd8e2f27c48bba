package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

const (
	looks      = 50 // samples, evenly spread over the cycles
	goroutines = 16
	names      = 256 // more than goroutines, so that each row is idle for a while
)

// A series is a run of one driver and one backend.
type series struct {
	server  *pgserver.Server
	driver  string
	hybrid  bool
	cycles  int
	took    time.Duration
	samples []sample
}

func (s *series) String() string {
	return map[string]string{"pgx": "pgx", "postgres": "lib/pq"}[s.driver] + ", " + map[bool]string{false: "table", true: "hybrid"}[s.hybrid]
}

// run acquires and releases, and looks when nothing is held.
func (s *series) run(ctx context.Context, cycles int) (err error) {
	database, err := s.server.CreateDatabase(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.server.DropDatabase(context.WithoutCancel(ctx), database)) }()
	dsn := s.server.DSN(pgserver.Database(database))
	admin, err := sql.Open(s.driver, dsn)
	if err != nil {
		return err
	}
	defer admin.Close()
	admin.SetMaxOpenConns(1) // which sees all but itself
	db, err := sql.Open(s.driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(3 * goroutines)
	db.SetMaxIdleConns(3 * goroutines)
	if err := fill(ctx, db, 2*goroutines); err != nil { // a hybrid lease has one, and a try another
		return err
	}
	var opts []pglease.Option
	if s.hybrid {
		opts = append(opts, pglease.WithHybrid())
	}
	var clients [2]*pglease.Client // the second one gets in the way
	for i := range clients {
		c, err := pglease.New(db, opts...)
		if err != nil {
			return err
		}
		defer c.Close(context.WithoutCancel(ctx))
		clients[i] = c
	}
	if err := clients[0].EnsureSchema(ctx); err != nil {
		return err
	}
	begun := time.Now()
	for look := range looks {
		n := cycles*(look+1)/looks - cycles*look/looks
		if err := round(ctx, clients, n/goroutines+1); err != nil {
			return err
		}
		s.cycles += (n/goroutines + 1) * goroutines
		one, err := lookAt(ctx, db, admin)
		if err != nil {
			return err
		}
		one.cycles = s.cycles
		s.samples = append(s.samples, one)
	}
	s.took = time.Since(begun)
	return nil
}

// fill opens as many connections as can be in use at a time: by chance that many may be needed late, and it would look like growth.
func fill(ctx context.Context, db *sql.DB, n int) (err error) {
	for range n {
		c, connErr := db.Conn(ctx)
		if connErr != nil {
			return errors.Join(err, connErr)
		}
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	return err
}

// round does n cycles on each goroutine. While a lease is held, every tenth is asked for by the other client, and every fiftieth
// renewed.
func round(ctx context.Context, clients [2]*pglease.Client, n int) error {
	var group sync.WaitGroup
	var errs [goroutines]error
	for g := range goroutines {
		group.Go(func() {
			for i := 0; i < n && errs[g] == nil; i++ {
				errs[g] = cycle(ctx, clients, nameOf[g+goroutines*(i%(names/goroutines))], i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs[:]...)
}

func cycle(ctx context.Context, clients [2]*pglease.Client, name string, i int) error {
	l, err := clients[0].TryAcquire(ctx, name)
	if err != nil {
		return err
	}
	if i%10 == 0 {
		if _, err := clients[1].TryAcquire(ctx, name); !errors.Is(err, pglease.ErrHeld) {
			return errors.Join(fmt.Errorf("a held lease: %w", err), l.Release(ctx))
		}
	}
	if i%50 == 0 {
		if err := l.Renew(ctx); err != nil {
			return errors.Join(err, l.Release(ctx))
		}
	}
	return l.Release(ctx)
}

var nameOf = func() (all [names]string) {
	for i := range all {
		all[i] = fmt.Sprintf("leak-%d", i)
	}
	return all
}()

// A sample is what is there at one time, while no lease is held.
type sample struct {
	cycles int
	of     [len(measures)]float64
}

// A measure is one of the numbers of a sample.
type measure struct {
	what, unit string
	fraction   float64 // how much it may grow from the second to the last fifth: by this part of it ...
	more       float64 // ... and this much besides
}

var measures = [...]measure{
	{"heap after GC", "B", 0.05, 256 << 10},
	{"stacks", "B", 0.05, 256 << 10},
	{"goroutines", "", 0, 2},
	{"connections of the pool", "", 0, 1},
	{"sessions of the server", "", 0, 1},
	{"table", "B", 0.10, 20 * 8192 * goroutines}, // the server adds up to 20 pages at once for each that waits for a new one
	{"indexes", "B", 0.10, 32 << 10},
	{"advisory locks", "", 0, 0},
}

func lookAt(ctx context.Context, db, admin *sql.DB) (s sample, err error) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.of = [len(measures)]float64{float64(m.HeapAlloc), float64(m.StackInuse), float64(runtime.NumGoroutine()), float64(db.Stats().OpenConnections)}
	err = admin.QueryRowContext(ctx, `SELECT
		(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'),
		pg_relation_size('pglease_leases'), pg_indexes_size('pglease_leases'),
		(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).
		Scan(&s.of[4], &s.of[5], &s.of[6], &s.of[7])
	return s, err
}
