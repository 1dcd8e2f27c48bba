package driver_test

import (
	"context"
	"database/sql"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"
)

// A dialer makes the connections of a driver.
type dialer interface {
	Dial(network, address string) (net.Conn, error)
	DialTimeout(network, address string, timeout time.Duration) (net.Conn, error)
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// A kind is one way to a *sql.DB.
type kind struct {
	name string
	open func(dsn string, d dialer) (db *sql.DB, done func(), err error) // d may be nil; done follows db.Close
}

var (
	libpq = kind{"pq", func(dsn string, d dialer) (*sql.DB, func(), error) {
		c, err := pq.NewConnector(dsn)
		if err != nil {
			return nil, nil, err
		}
		if d != nil {
			c.Dialer(d)
		}
		return keepIdle(sql.OpenDB(c)), func() {}, nil
	}}
	pgxStdlib = kind{"pgx", func(dsn string, d dialer) (*sql.DB, func(), error) {
		c, err := pgx.ParseConfig(dsn)
		if err != nil {
			return nil, nil, err
		}
		if d != nil {
			c.DialFunc = d.DialContext
		}
		return keepIdle(stdlib.OpenDB(*c)), func() {}, nil
	}}
	pgxPool = kind{"pgxpool", func(dsn string, d dialer) (*sql.DB, func(), error) {
		c, err := pgxpool.ParseConfig(dsn)
		if err != nil {
			return nil, nil, err
		}
		if d != nil {
			c.ConnConfig.DialFunc = d.DialContext
		}
		c.MaxConns = 90 // the default, 4, is for applications; a hybrid lease takes one
		p, err := pgxpool.NewWithConfig(context.Background(), c)
		if err != nil {
			return nil, nil, err
		}
		return stdlib.OpenDBFromPool(p), p.Close, nil
	}}

	// two have protocols of their own; three are all ways to them.
	two   = []kind{libpq, pgxStdlib}
	three = []kind{libpq, pgxStdlib, pgxPool}
)

func kindOf(name string) kind {
	for _, k := range three {
		if k.name == name {
			return k
		}
	}
	panic("no driver " + name)
}

// keepIdle spares tests with many goroutines the time to connect: the default is 2.
func keepIdle(db *sql.DB) *sql.DB {
	db.SetMaxIdleConns(30)
	return db
}

// open opens a pool on the env. When t ends, nothing may be in use or locked.
func (e *env) open(t *testing.T, k kind, dsn string) *sql.DB { return e.openThrough(t, k, dsn, nil) }

func (e *env) openThrough(t *testing.T, k kind, dsn string, d dialer) *sql.DB {
	t.Helper()
	db, done, err := k.open(dsn, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !poll(func() bool { return db.Stats().InUse == 0 }) {
			t.Errorf("%d connections are still in use", db.Stats().InUse)
		}
		e.noLock()
		_ = db.Close()
		done()
	})
	return db
}

// conn takes a session out of db until t ends.
func conn(t *testing.T, db *sql.DB) *sql.Conn {
	t.Helper()
	c, err := db.Conn(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// each runs f for each driver, in a subtest with an env of its own, side by side.
func each(t *testing.T, kinds []kind, f func(t *testing.T, e *env, k kind)) {
	t.Helper()
	noGoroutineLeft(t)
	t.Run("with", func(t *testing.T) { // ends when all of them have
		for _, k := range kinds {
			t.Run(k.name, func(t *testing.T) {
				t.Parallel()
				f(t, newEnv(t).table(), k)
			})
		}
	})
}
