package driver_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglease/pglease-go/pglease"
)

// A guard is an open transaction that has passed the check of a lease.
type guard struct {
	commit, rollback func() error
	exec             func(statement string) error
}

// A guardKind is one of the ways to check: CheckTx with each driver, CheckQuery with a transaction of pgx.
type guardKind struct {
	name  string
	kind  kind
	check func(t *testing.T, e *env, db *sql.DB, l *pglease.Lease, isolation string) (guard, error)
}

var guards = []guardKind{
	{"pq", libpq, checkTx},
	{"pgx", pgxStdlib, checkTx},
	{"native pgx", pgxStdlib, checkQuery},
}

func checkTx(t *testing.T, _ *env, db *sql.DB, l *pglease.Lease, isolation string) (guard, error) {
	t.Helper()
	tx := begin(t, db, nil)
	g := guard{tx.Commit, tx.Rollback, func(s string) error { _, err := tx.Exec(s); return err }}
	if isolation != "" {
		if err := g.exec("SET TRANSACTION ISOLATION LEVEL " + isolation); err != nil {
			t.Fatal(err)
		}
	}
	return g, l.CheckTx(testContext(t), tx)
}

func checkQuery(t *testing.T, e *env, _ *sql.DB, l *pglease.Lease, isolation string) (guard, error) {
	t.Helper()
	ctx := testContext(t)
	pool, err := pgxpool.New(ctx, e.dsn())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	g := guard{
		func() error { return tx.Commit(ctx) }, func() error { return tx.Rollback(ctx) },
		func(s string) error { _, err := tx.Exec(ctx, s); return err },
	}
	if isolation != "" {
		if err := g.exec("SET TRANSACTION ISOLATION LEVEL " + isolation); err != nil {
			t.Fatal(err)
		}
	}
	return g, askNative(ctx, tx, l)
}

// askNative is what users of CheckQuery do.
func askNative(ctx context.Context, tx pgx.Tx, l *pglease.Lease) error {
	query, args := l.CheckQuery()
	var current bool
	if err := tx.QueryRow(ctx, query, args...).Scan(&current); err != nil {
		return err
	}
	if !current {
		return pglease.ErrLost
	}
	return l.Err()
}

// guarded runs f for every way to check, side by side.
func guarded(t *testing.T, f func(t *testing.T, e *env, db *sql.DB, g guardKind)) {
	t.Helper()
	noGoroutineLeft(t)
	t.Run("with", func(t *testing.T) {
		for _, g := range guards {
			t.Run(g.name, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t).table()
				f(t, e, e.open(t, g.kind, e.dsn()), g)
			})
		}
	})
}
