//go:build linux

package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/faultproxy"
	"github.com/pglease/pglease-go/driver_test/internal/history"
	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

// clientMark stands for the number of a client in a DSN; the server knows its sessions by it.
const clientMark = "{client}"

const appName = "torture-"

// The names that are fought over: by all, by all, and by one backend each.
var names = []string{"mixed-1", "mixed-2", "hybrid", "table"}

// A director starts the server and the workers, causes faults, and writes down which.
type director struct {
	dir     string
	rng     *rand.Rand
	version int
	clock   *serverClock // nil: the server's clock can't be set
	gate    *gate
	slots   []*slot
	nextID  atomic.Int64

	serverBusy sync.Mutex // one fault of the server at a time
	server     *pgserver.Server
	database   string
	admin      *sql.DB
	client     *pglease.Client // of the director's own
	r          *recorder

	mu   sync.Mutex
	log  *os.File
	errs []error
	left history.Left
}

func newDirector(ctx context.Context, dir string, rng *rand.Rand) (_ *director, err error) {
	d := &director{dir: dir, rng: rng}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil { // the server's account reads the clock's offset
		return nil, err
	}
	if d.log, err = os.Create(filepath.Join(dir, "faults.jsonl")); err != nil {
		return nil, err
	}
	if d.r, err = newRecorder(filepath.Join(dir, "client-0.jsonl"), 0, 0); err != nil {
		return nil, err
	}
	if d.clock, err = newServerClock(dir); err != nil {
		return nil, err
	}
	if d.clock == nil {
		fmt.Println("not run: clock jumps: there is no libfaketime (Debian: apt-get install faketime)")
	}
	if d.server, err = pgserver.Start(ctx, pgserver.WithKinds(pgserver.Local), pgserver.WithLog(os.Stdout)); err != nil {
		return nil, err
	}
	if d.version, err = d.server.Version(ctx); err != nil {
		return nil, err
	}
	if d.database, err = d.server.CreateDatabase(ctx); err != nil {
		return nil, err
	}
	address, err := hostOf(d.server)
	if err != nil {
		return nil, err
	}
	if d.gate, err = newGate(address); err != nil {
		return nil, err
	}
	if err := d.prepare(ctx); err != nil {
		return nil, err
	}
	return d, d.fill()
}

func hostOf(s *pgserver.Server) (string, error) {
	u, err := url.Parse(s.DSN())
	if err != nil {
		return "", err
	}
	return u.Host, nil
}

// dsn leads to whichever server is the primary.
func (d *director) dsn(client string) (string, error) {
	u, err := url.Parse(d.server.DSN(pgserver.Database(d.database), pgserver.Param("application_name", appName+client)))
	if err != nil {
		return "", err
	}
	u.Host = d.gate.address()
	return u.String(), nil
}

// prepare makes the tables.
func (d *director) prepare(ctx context.Context) error {
	dsn, err := d.dsn("director")
	if err != nil {
		return err
	}
	if d.admin, err = sql.Open("pgx", dsn); err != nil {
		return err
	}
	d.admin.SetMaxIdleConns(0) // an idle one may be of the primary before
	if d.client, err = pglease.New(d.admin); err != nil {
		return err
	}
	if err := d.client.EnsureSchema(ctx); err != nil {
		return err
	}
	if _, err := d.admin.ExecContext(ctx, guardedTables); err != nil {
		return err
	}
	for _, name := range names {
		if _, err := d.admin.ExecContext(ctx, "INSERT INTO guarded VALUES ($1, 0, 0)", name); err != nil {
			return err
		}
	}
	return nil
}

// fill starts the workers: every driver with every backend, directly and through a proxy, and Python workers.
func (d *director) fill() error {
	ttls := []time.Duration{time.Second, 2 * time.Second, 1500 * time.Millisecond, 3 * time.Second}
	for _, route := range []string{"direct", "proxy"} {
		for _, backend := range []string{"hybrid", "table", "python"} {
			for _, driver := range []string{"pgx", "lib/pq"} {
				who := history.Who{Driver: driver, Backend: backend, Route: route, TTL: ttls[len(d.slots)%len(ttls)]}
				if backend == "python" && (driver == "pgx") != (route == "direct") {
					continue // two of them are enough
				}
				if err := d.add(who); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (d *director) add(who history.Who) error {
	s := &slot{setup: setup{Who: who, Names: []string{"mixed-1", "mixed-2"}}}
	if who.Backend != "python" {
		s.Names = append(s.Names, who.Backend)
	}
	dsn, err := d.dsn(clientMark)
	if err != nil {
		return err
	}
	if who.Route == "proxy" {
		if s.proxy, err = faultproxy.Start(dsn); err != nil {
			return err
		}
		dsn = s.proxy.DSN()
	}
	if s.DSN, err = url.QueryUnescape(dsn); err != nil {
		return err
	}
	d.slots = append(d.slots, s)
	return d.replace(s)
}

func (d *director) replace(s *slot) error {
	id := d.nextID.Add(1)
	return s.start(int(id), *seed+uint64(id), d.dir)
}

// run causes faults for so long, and then ends everything.
func (d *director) run(ctx context.Context, length time.Duration) error {
	stalls, stopStalls := context.WithCancel(context.Background())
	var helpers sync.WaitGroup
	helpers.Go(func() { d.r.watchStalls(stalls) })
	d.torment(ctx, length)
	stopStalls()
	helpers.Wait()
	return errors.Join(append(d.errs, d.wind(context.WithoutCancel(ctx)))...)
}

// failed notes an error of a fault that could not be caused.
func (d *director) failed(what history.Kind, err error) {
	if err == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.errs = append(d.errs, fmt.Errorf("%s: %w", what, err))
}

// wrote writes a fault down.
func (d *director) wrote(f history.Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := json.NewEncoder(d.log).Encode(f); err != nil {
		panic(err)
	}
	if !*quiet {
		fmt.Printf("%8.3f  %s", float64(f.At)/1e9, f.Kind)
		if f.Client != 0 {
			fmt.Printf(", client %d", f.Client)
		}
		if f.Note != "" {
			fmt.Printf(", %s", f.Note)
		}
		fmt.Println()
	}
}

// close ends what the director has started.
func (d *director) close() error {
	var errs []error
	for _, s := range d.slots {
		if p := s.process(); p != nil {
			select {
			case <-p.gone:
			default:
				errs = append(errs, p.kill())
			}
		}
		if s.proxy != nil {
			s.proxy.Stop()
		}
	}
	if d.admin != nil {
		errs = append(errs, d.admin.Close())
	}
	if d.gate != nil {
		d.gate.close()
	}
	if d.server != nil {
		errs = append(errs, d.server.Stop())
	}
	if d.log != nil {
		errs = append(errs, d.log.Close())
	}
	if d.r != nil {
		errs = append(errs, d.r.file.Close())
	}
	return errors.Join(errs...)
}
