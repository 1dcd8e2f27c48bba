//go:build linux

package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/pglease/pglease-go/driver_test/internal/history"
	"github.com/pglease/pglease-go/pglease"
)

// workerVariable makes this program a worker.
const workerVariable = "PGLEASE_TORTURE_WORKER"

const (
	poolSize   = 12
	actors     = 2 // goroutines that acquire, in each process
	endLimit   = 20 * time.Second
	goLimit    = 5 * time.Second // for goroutines to end when the client has closed
	stallCheck = 10 * time.Millisecond
	stalled    = 50 * time.Millisecond // and more is written down
)

// A setup is what a worker is started with.
type setup struct {
	ID    int
	Who   history.Who
	DSN   string
	Names []string
	Seed  uint64
	Pause time.Duration // of a guarded write
	File  string
}

// work is the main function of a worker. It goes on until its standard input ends. Lines there are orders: "drain MILLISECONDS".
func work() error {
	var s setup
	if err := json.Unmarshal([]byte(os.Getenv(workerVariable)), &s); err != nil {
		return err
	}
	r, err := newRecorder(s.File, s.ID, s.Who.TTL)
	if err != nil {
		return err
	}
	before := runtime.NumGoroutine()
	db, err := sql.Open(map[string]string{"pgx": "pgx", "lib/pq": "postgres"}[s.Who.Driver], s.DSN)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db.SetMaxOpenConns(poolSize)
	db.SetMaxIdleConns(poolSize / 2)
	r.write(history.Op{Action: history.Hello, Call: now(), Return: now(), Who: &s.Who})

	var helpers sync.WaitGroup
	helpers.Go(func() { r.watchStalls(ctx) })
	orders := bufio.NewScanner(os.Stdin)
	go func() {
		defer stop()
		for orders.Scan() {
			var ms int
			if n, _ := fmt.Sscanf(orders.Text(), "drain %d", &ms); n == 1 {
				helpers.Go(func() { drain(ctx, db, time.Duration(ms)*time.Millisecond) })
			}
		}
	}()
	act := actTogether
	if s.Who.Backend == "python" {
		act = actAsPython
	}
	err = act(ctx, s, r, db)
	helpers.Wait()
	if closeErr := db.Close(); err == nil {
		err = closeErr
	}
	r.bye(before)
	return err
}

// actTogether has a client's actors do what they do until ctx ends, and closes the client.
func actTogether(ctx context.Context, s setup, r *recorder, db *sql.DB) error {
	opts := []pglease.Option{pglease.WithTTL(s.Who.TTL), pglease.WithPollInterval(100 * time.Millisecond), pglease.WithObserver(r)}
	if s.Who.Backend == "hybrid" {
		opts = append(opts, pglease.WithHybrid())
	}
	c, err := pglease.New(db, opts...)
	if err != nil {
		return err
	}
	var running, watches sync.WaitGroup
	for i := range actors {
		a := &actor{setup: s, r: r, db: db, c: c, watches: &watches, rng: rand.New(rand.NewPCG(s.Seed, uint64(i)))}
		running.Go(func() { a.act(ctx) })
	}
	running.Wait()
	closing, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	err = c.Close(closing)
	watches.Wait()
	return err
}

// watchStalls writes down when the process was not run: it was stopped, or the machine had other things to do.
func (r *recorder) watchStalls(ctx context.Context) {
	tick := time.NewTicker(stallCheck)
	defer tick.Stop()
	for last := now(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		at := now()
		if at-last > int64(stallCheck+stalled) {
			r.write(history.Op{Action: history.Stall, Call: last, Return: at})
		}
		last = at
	}
}

// drain takes every connection that the pool gives, and keeps them for d, as an application does that has no limit.
func drain(ctx context.Context, db *sql.DB, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for range poolSize {
		conn, err := db.Conn(ctx)
		if err != nil {
			break
		}
		defer conn.Close()
	}
	<-ctx.Done()
}

// bye writes down how many goroutines are left, and what they do.
func (r *recorder) bye(before int) {
	left := 0
	for end := time.Now().Add(goLimit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if left = runtime.NumGoroutine() - before - 1; left <= 0 { // one reads orders
			left = 0
			break
		}
	}
	o := history.Op{Action: history.Bye, Call: now(), Goroutines: left}
	if left > 0 {
		stacks := make([]byte, 1<<16)
		o.Error = strings.TrimSpace(string(stacks[:runtime.Stack(stacks, true)]))
	}
	o.Return = now()
	r.write(o)
}
