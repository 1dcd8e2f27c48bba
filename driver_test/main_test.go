// Package driver_test runs the library on real servers, through real drivers.
package driver_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
)

// The servers of a run. What only a Local server can do (TLS, a socket, faults) has servers of its own, started when the
// first test asks for them.
var (
	shared   *place // whatever pgserver found
	secure   = lazyPlace{opts: []pgserver.Option{pgserver.WithKinds(pgserver.Local), pgserver.WithTLS()}}
	breaking = lazyPlace{opts: []pgserver.Option{pgserver.WithKinds(pgserver.Local)}}
)

// A place is a server and the database in which tests get schemas.
type place struct {
	*pgserver.Server
	database string
	admin    *sql.DB
}

func newPlace(ctx context.Context, opts ...pgserver.Option) (*place, error) {
	s, err := pgserver.Start(ctx, opts...)
	if err != nil {
		return nil, err
	}
	p := &place{Server: s}
	if p.database, err = s.CreateDatabase(ctx); err == nil {
		p.admin, err = sql.Open("pgx", s.DSN(pgserver.Database(p.database)))
	}
	if err != nil {
		_ = s.Stop()
		return nil, err
	}
	p.admin.SetMaxOpenConns(4)
	return p, nil
}

func (p *place) stop() {
	_ = p.admin.Close()
	if err := p.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "driver_test:", err)
	}
}

type lazyPlace struct {
	opts  []pgserver.Option
	once  sync.Once
	place *place
	err   error
}

// get returns the server, or ends the test as not run if this machine has no such thing.
func (l *lazyPlace) get(t *testing.T, feature string) *place {
	t.Helper()
	l.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		l.place, l.err = newPlace(ctx, l.opts...)
	})
	if l.err != nil {
		pgserver.NotRun(t, feature, l.err.Error())
	}
	return l.place
}

// cleanups run when all tests have ended.
var cleanups []func()

const startLimit = 3 * time.Minute

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	var opts []pgserver.Option
	if os.Getenv("PGLEASE_TEST_DSN") == "" { // whose settings are not ours to change
		opts = append(opts, pgserver.WithSetting("max_prepared_transactions", "20"))
	}
	var err error
	if shared, err = newPlace(ctx, opts...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer shared.stop()
	defer func() {
		for _, f := range cleanups {
			f()
		}
	}()
	defer func() {
		for _, l := range []*lazyPlace{&secure, &breaking} {
			if l.place != nil {
				l.place.stop()
			}
		}
	}()
	return m.Run()
}
