//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/wire"
	"github.com/pglease/pglease-go/pglease"
)

func (m *meter) place(driver string, counted bool) *place {
	p := &place{ctx: m.ctx, driver: driver, dsn: m.dsn}
	if counted {
		p.count = &wire.Counter{}
	}
	return p
}

// cost counts what an operation sends and what the server writes for it, with nothing else going on.
func (m *meter) cost() (err error) {
	entries, err := m.enter(true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave(entries)) }()
	fmt.Println("| who | driver | operation | statements | round trips | WAL bytes | transaction ids |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, e := range entries {
		if err := m.count(e, "acquire and release", e.racer.cycle); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	for _, e := range entries {
		if e.notTry != "" {
			fmt.Printf("| %s | %s | try | not measured: %s | | | |\n", e.name, nameOf(e.place.driver), e.notTry)
			continue
		}
		err := e.racer.hold(m.ctx)
		if err == nil {
			err = m.count(e, "try", e.racer.try)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

func (m *meter) count(e *entry, what string, op func(context.Context, int) error) error {
	if _, err := m.admin.ExecContext(m.ctx, "CHECKPOINT"); err != nil {
		return err
	}
	for range *cycles/10 + 1 { // prepares statements, and writes the full page images that follow a checkpoint
		if err := op(m.ctx, 0); err != nil {
			return err
		}
	}
	e.place.count.Reset()
	wal, xids, err := m.written()
	if err != nil {
		return err
	}
	for range *cycles {
		if err := op(m.ctx, 0); err != nil {
			return err
		}
	}
	statements, trips := e.place.count.Count()
	walAfter, xidsAfter, err := m.written()
	if err != nil {
		return err
	}
	each := func(n float64) float64 { return n / float64(*cycles) }
	fmt.Printf("| %s | %s | %s | %.2f | %.2f | %.0f | %.2f |\n", e.name, nameOf(e.place.driver), what,
		each(float64(statements)), each(float64(trips)), each(walAfter-wal), each(xidsAfter-xids))
	return nil
}

// written returns the end of the server's WAL, in bytes, and its next transaction id.
func (m *meter) written() (wal, xids float64, err error) {
	err = m.admin.QueryRowContext(m.ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8,
		pg_snapshot_xmax(pg_current_snapshot())::text::float8`).Scan(&wal, &xids)
	return wal, xids, err
}

// grow counts what a client that holds leases sends, and what it needs for each: of the heap and of stacks, the connection of a hybrid
// lease included.
func (m *meter) grow() error {
	fmt.Println("| leases | backend | driver | acquired in | statements a second | bytes a lease | goroutines a lease | bar |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, backend := range []string{"table", "hybrid"} {
		for _, text := range strings.Split(*leases, ",") {
			n, err := strconv.Atoi(text)
			if err != nil {
				return err
			}
			for _, driver := range drivers {
				if backend == "hybrid" && n > 100 {
					fmt.Printf("| %d | hybrid | %s | not measured: a hybrid lease has a connection of its own | | | | |\n", n, nameOf(driver))
				} else if err := m.held(n, backend, driver, backends()[backend]...); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (m *meter) held(n int, backend, driver string, opts ...pglease.Option) (err error) {
	p := m.place(driver, true)
	db, err := p.pool()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c, err := pglease.New(db, append(opts, pglease.WithTTL(30*time.Second))...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(m.ctx)) }()
	// What a client, its heartbeat and its connections need whether it holds one or many is there before the first look.
	if err := m.warm(c, driver); err != nil {
		return err
	}
	time.Sleep(settled) // until the goroutines and buffers of the warming are gone
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("grow-%s-%s-%d", backend, driver, i)
	}
	bytes, routines := memory()
	begun := time.Now()
	if err := acquireAll(m.ctx, c, names); err != nil {
		return err
	}
	took := time.Since(begun)
	p.count.Reset()
	time.Sleep(*window)
	statements, _ := p.count.Count()
	bytesAfter, routinesAfter := memory()
	runtime.KeepAlive(names)
	bar := ""
	if backend == "table" && n == 10000 {
		bar = "<= 2 statements, 4096 bytes, 1 goroutine"
	}
	each := fmt.Sprintf("%.0f", (bytesAfter-bytes)/float64(n))
	if n < 1000 && backend == "table" { // a lease is small beside what the drivers keep for their connections
		each = "too few to tell"
	}
	fmt.Printf("| %d | %s | %s | %v | %.2f | %s | %.2f | %s |\n", n, backend, nameOf(driver), took.Round(time.Millisecond),
		float64(statements)/window.Seconds(), each, (routinesAfter-routines)/float64(n), bar)
	return nil
}

// warm acquires and releases on as many goroutines as acquireAll has.
func (m *meter) warm(c *pglease.Client, driver string) error {
	p := m.place(driver, false)
	_, err := repeat(m.ctx, goroutines, 100*time.Millisecond, func(ctx context.Context, i int) error {
		l, err := c.TryAcquire(ctx, raceName(p, i))
		if err != nil {
			return err
		}
		return l.Release(ctx)
	})
	return err
}

// acquireAll acquires all names, a few at a time. The client keeps the leases.
func acquireAll(ctx context.Context, c *pglease.Client, names []string) error {
	var (
		group sync.WaitGroup
		errs  [goroutines]error
	)
	for g := range goroutines {
		group.Go(func() {
			for i := g; i < len(names) && errs[g] == nil; i += goroutines {
				_, errs[g] = c.TryAcquire(ctx, names[i])
			}
		})
	}
	group.Wait()
	return errors.Join(errs[:]...)
}

// memory returns the bytes that are in use on the heap and for stacks, and the goroutines.
func memory() (bytes, routines float64) {
	for range 6 { // caches go with the second, and stacks shrink by half with each
		runtime.GC()
	}
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return float64(s.HeapAlloc + s.StackInuse), float64(runtime.NumGoroutine())
}
