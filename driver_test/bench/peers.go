//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	migrate "github.com/golang-migrate/migrate/v4/database"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	migratepq "github.com/golang-migrate/migrate/v4/database/postgres"
	"github.com/pressly/goose/v3/lock"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/rivertype"
)

// The peers, each through what it exports, as its own code uses it.

func startGooseSession(p *place) (*racer, error) {
	db, err := p.pool()
	if err != nil {
		return nil, err
	}
	var lockers [goroutines]lock.SessionLocker
	for i := range lockers {
		if lockers[i], err = lock.NewPostgresSessionLocker(lock.WithLockID(lockID(p, i))); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return &racer{
		cycle: func(ctx context.Context, i int) error {
			conn, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			if err := lockers[i].SessionLock(ctx, conn); err != nil {
				return errors.Join(err, conn.Close())
			}
			return errors.Join(lockers[i].SessionUnlock(ctx, conn), conn.Close())
		},
		close: db.Close,
	}, nil
}

func startGooseTable(p *place) (*racer, error) {
	db, err := p.pool()
	if err != nil {
		return nil, err
	}
	var lockers, others [goroutines]lock.Locker
	never := lock.WithTableRetryPolicy(func(error) bool { return false }) // makes a try of its Lock
	for i := range lockers {
		if lockers[i], err = lock.NewPostgresTableLocker(lock.WithTableLockID(lockID(p, i))); err == nil {
			others[i], err = lock.NewPostgresTableLocker(lock.WithTableLockID(lockID(p, goroutines)), never)
		}
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	holder, err := lock.NewPostgresTableLocker(lock.WithTableLockID(lockID(p, goroutines)))
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	done := func() error { return nil }
	return &racer{
		cycle: func(ctx context.Context, i int) error {
			if err := lockers[i].Lock(ctx, db); err != nil {
				return err
			}
			return lockers[i].Unlock(ctx, db)
		},
		hold: func(ctx context.Context) error {
			done = func() error { return holder.Unlock(p.ctx, db) }
			return holder.Lock(ctx, db)
		},
		try: func(ctx context.Context, i int) error {
			if err := others[i].Lock(ctx, db); err == nil {
				return errors.New("a held lock was granted")
			}
			return ctx.Err()
		},
		close: func() error { return errors.Join(done(), db.Close()) },
	}, nil
}

func startMigrate(p *place) (*racer, error) {
	db, err := p.pool()
	if err != nil {
		return nil, err
	}
	var locks [goroutines]migrate.Driver // each with a connection of its own; the name is that of the table of versions
	for i := range locks {
		table := fmt.Sprintf("bench_migrate_%s_%d", p.driver, i)
		if p.driver == "pgx" {
			locks[i], err = migratepgx.WithInstance(db, &migratepgx.Config{MigrationsTable: table})
		} else {
			locks[i], err = migratepq.WithInstance(db, &migratepq.Config{MigrationsTable: table})
		}
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return &racer{
		cycle: func(_ context.Context, i int) error {
			if err := locks[i].Lock(); err != nil {
				return err
			}
			return locks[i].Unlock()
		},
		close: func() (err error) {
			for _, l := range locks {
				err = errors.Join(err, l.Close()) // each closes the pool, too
			}
			return err
		},
	}, nil
}

// river elects one leader a schema. Its elector runs within a client; what can be called from outside is the statements that the
// elector sends, of a package which is exported and marked as unstable. Its table is UNLOGGED: no WAL, and empty after a crash.
func startRiver(p *place) (*racer, error) {
	db, err := p.pool()
	if err != nil {
		return nil, err
	}
	river := riverdatabasesql.New(db).GetExecutor()
	schema := "river_" + p.driver
	elect := func(ctx context.Context, ttl time.Duration) (*riverdriver.Leader, error) {
		return river.LeaderAttemptElect(ctx, &riverdriver.LeaderElectParams{LeaderID: "bench", TTL: ttl, Schema: schema})
	}
	resign := func(ctx context.Context, l *riverdriver.Leader) error {
		was, err := river.LeaderResign(ctx, &riverdriver.LeaderResignParams{ElectedAt: l.ElectedAt, LeaderID: "bench", LeadershipTopic: "river_leadership", Schema: schema})
		if err == nil && !was {
			err = errors.New("nothing to resign from")
		}
		return err
	}
	done := func() error { return nil }
	return &racer{
		cycle: func(ctx context.Context, _ int) error {
			l, err := elect(ctx, 15*time.Second)
			if err != nil {
				return err
			}
			return resign(ctx, l)
		},
		hold: func(ctx context.Context) error {
			l, err := elect(ctx, 24*time.Hour)
			if err == nil {
				done = func() error { return resign(p.ctx, l) }
			}
			return err
		},
		try: func(ctx context.Context, _ int) error {
			switch _, err := elect(ctx, time.Second); {
			case err == nil:
				return errors.New("a second leader was elected")
			case errors.Is(err, rivertype.ErrNotFound):
				return nil
			default:
				return err
			}
		},
		close: func() error { return errors.Join(done(), db.Close()) },
	}, nil
}

// riverSchema applies river's own migrations, in a schema for each driver.
func riverSchema(ctx context.Context, admin *sql.DB) error {
	files := riverdatabasesql.New(nil).GetMigrationFS(riverdriver.MigrationLineMain)
	names, err := fs.Glob(files, "migration/main/*.up.sql")
	if err != nil {
		return err
	}
	slices.Sort(names)
	conn, err := admin.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, driver := range drivers {
		schema := "river_" + driver
		if _, err := conn.ExecContext(ctx, "CREATE SCHEMA "+schema); err != nil {
			return err
		}
		for _, name := range names {
			text, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			if _, err := conn.ExecContext(ctx, strings.ReplaceAll(string(text), "/* TEMPLATE: schema */", schema+".")); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if len(names) == 0 {
		return errors.New("river has no migrations where they were")
	}
	return nil
}

// lockID is a number for the i-th name of a driver.
func lockID(p *place, i int) int64 {
	if p.driver == "pgx" {
		return int64(1000 + i)
	}
	return int64(2000 + i)
}
