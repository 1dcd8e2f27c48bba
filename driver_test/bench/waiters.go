//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// settled is how long waiters get to begin with waiting.
const settled = 3 * time.Second

func backends() map[string][]pglease.Option {
	return map[string][]pglease.Option{"table": nil, "hybrid": {pglease.WithHybrid()}}
}

// holder has a client of its own hold name until the function that it returns is called.
func (m *meter) holder(name string, opts []pglease.Option) (func() error, error) {
	c, err := pglease.New(m.admin, opts...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(m.ctx, time.Minute) // the sessions of those who waited before may just be ending
	defer cancel()
	if _, err := c.Acquire(ctx, name); err != nil {
		return nil, errors.Join(err, c.Close(m.ctx))
	}
	return func() error { return c.Close(m.ctx) }, nil
}

// wait counts what many waiters of one process need.
func (m *meter) wait() error {
	fmt.Println("| waiters | backend | driver | connections in use | open | statements a second | gave up within | bar |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, backend := range []string{"table", "hybrid"} {
		for _, driver := range drivers {
			if err := m.crowd(backend, driver); err != nil {
				return fmt.Errorf("%s, %s: %w", backend, driver, err)
			}
		}
	}
	return nil
}

func (m *meter) crowd(backend, driver string) (err error) {
	name := "crowd-" + backend + "-" + driver
	release, err := m.holder(name, backends()[backend])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	p := m.place(driver, true)
	db, err := p.pool()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c, err := pglease.New(db, backends()[backend]...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(m.ctx)) }()
	ctx, giveUp := context.WithCancel(m.ctx)
	defer giveUp()
	errs := make([]error, *waiters)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			if _, err := c.Acquire(ctx, name); !errors.Is(err, context.Canceled) {
				errs[i] = fmt.Errorf("a waiter ended: %w", err)
			}
		})
	}
	time.Sleep(settled)
	p.count.Reset()
	used, open := 0, 0
	for begun := time.Now(); time.Since(begun) < *window; time.Sleep(10 * time.Millisecond) {
		used, open = max(used, db.Stats().InUse), max(open, db.Stats().OpenConnections)
	}
	statements, _ := p.count.Count()
	begun := time.Now()
	giveUp()
	group.Wait()
	fmt.Printf("| %d | %s | %s | %d | %d | %.2f | %v | 1 connection, <= 1 statement a second |\n", *waiters, backend, nameOf(driver),
		used, open, float64(statements)/window.Seconds(), time.Since(begun).Round(time.Millisecond))
	return errors.Join(errs...)
}

// waitApart counts what several processes send that wait for one name.
func (m *meter) waitApart() error {
	fmt.Println("| processes | backend | driver | connections open | statements a second, all | of each |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, text := range strings.Split(*processes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		for _, backend := range []string{"table", "hybrid"} {
			for _, driver := range drivers {
				if err := m.queue(n, backend, driver); err != nil {
					return fmt.Errorf("%d, %s, %s: %w", n, backend, driver, err)
				}
			}
		}
	}
	return nil
}

func (m *meter) queue(n int, backend, driver string) (err error) {
	release, err := m.holder(leaseName, backends()[backend])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	var all []*process
	defer func() {
		for _, p := range all {
			err = errors.Join(err, p.end())
		}
	}()
	for range n {
		p, err := start(setup{Driver: driver, DSN: m.dsn, TTL: pglease.DefaultTTL, Table: backend == "table"})
		if err != nil {
			return err
		}
		all = append(all, p)
		if err := p.command("wait"); err != nil {
			return err
		}
	}
	time.Sleep(settled)
	before, err := total(all)
	if err != nil {
		return err
	}
	var sessions int
	if err := m.admin.QueryRowContext(m.ctx, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`).Scan(&sessions); err != nil {
		return err
	}
	sessions -= m.admin.Stats().OpenConnections - 1
	time.Sleep(*window)
	after, err := total(all)
	if err != nil {
		return err
	}
	rate := float64(after-before) / window.Seconds()
	fmt.Printf("| %d | %s | %s | %d | %.2f | %.2f |\n", n, backend, nameOf(driver), sessions, rate, rate/float64(n))
	return nil
}

// total is what all of them have sent so far.
func total(all []*process) (sum int, err error) {
	for _, p := range all {
		if err := p.command("count"); err != nil {
			return 0, err
		}
		n, err := p.wait("count")
		if err != nil {
			return 0, err
		}
		sum += n.N
	}
	return sum, nil
}
