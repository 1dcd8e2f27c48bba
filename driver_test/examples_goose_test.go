package driver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/pglease/pglease-go/pglease"
)

// migrate brings the database up to date in one process, while the others wait and then find nothing to do. ctx ends goose's
// statements, and so does the loss of the lease.
func migrate(ctx context.Context, client *pglease.Client, db *sql.DB, migrations fs.FS) error {
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations)
	if err != nil {
		return err
	}
	return client.Do(ctx, "migrate", func(ctx context.Context, _ *pglease.Lease) error {
		_, err := provider.Up(ctx)
		return err
	}, pglease.Wait())
}

// A gooseLocker is a goose lock.SessionLocker, where goose is called by somebody else. The lease is held over connections of the
// client's own: the one that goose offers is left to its migrations. One for each provider.
type gooseLocker struct {
	client *pglease.Client
	name   string
	lease  *pglease.Lease
}

// SessionLock waits until this process has the lease, or ctx ends.
func (g *gooseLocker) SessionLock(ctx context.Context, _ *sql.Conn) (err error) {
	g.lease, err = g.client.Acquire(ctx, g.name)
	return err
}

// SessionUnlock returns a *pglease.LostError if the lease was lost meanwhile: then another may have migrated at the same time.
func (g *gooseLocker) SessionUnlock(ctx context.Context, _ *sql.Conn) error {
	return g.lease.Release(ctx)
}

var _ lock.SessionLocker = (*gooseLocker)(nil)

// alone is a migration that fails if another runs beside it.
var alone = fstest.MapFS{"00001_alone.sql": {Data: []byte(`-- +goose Up
CREATE TABLE ran AS SELECT pg_sleep(0.2)::text AS slept;
-- +goose Down
DROP TABLE ran;
`)}}

// Ten processes migrate at once. Without a lock goose fails in most of them, since each creates its table of versions.
func TestGooseMigratesUnderALease(t *testing.T) {
	ways := map[string]func(context.Context, *pglease.Client, *sql.DB) error{
		"Do": func(ctx context.Context, c *pglease.Client, db *sql.DB) error { return migrate(ctx, c, db, alone) },
		"SessionLocker": func(ctx context.Context, c *pglease.Client, db *sql.DB) error {
			provider, err := goose.NewProvider(goose.DialectPostgres, db, alone, goose.WithSessionLocker(&gooseLocker{client: c, name: "migrate"}))
			if err != nil {
				return err
			}
			_, err = provider.Up(ctx)
			return err
		},
	}
	noGoroutineLeft(t)
	for _, k := range two {
		for _, mode := range modes {
			for way, up := range ways {
				t.Run(fmt.Sprintf("%s/%s/%s", k.name, mode.name, way), func(t *testing.T) {
					e := newEnv(t).table()
					var wg sync.WaitGroup
					for range 10 {
						db := e.open(t, k, e.dsn())
						c := client(t, db, mode.opts...)
						wg.Go(func() {
							if err := up(testContext(t), c, db); err != nil {
								t.Error(err)
							}
						})
					}
					wg.Wait()
					if n := value[int](e, "SELECT count(*)::int FROM ran"); n != 1 {
						t.Errorf("%d rows", n)
					}
				})
			}
		}
	}
}

// A lock that was lost is told at the unlock, and a wait ends with its context.
func TestGooseLockerTellsOfALoss(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		db := e.open(t, k, e.dsn())
		g := &gooseLocker{client: client(t, db), name: "migrate"}
		c := conn(t, db)
		ctx := testContext(t)
		if err := g.SessionLock(ctx, c); err != nil {
			t.Fatal(err)
		}
		other := &gooseLocker{client: client(t, db), name: "migrate"}
		short, cancel := context.WithTimeout(ctx, patience/100)
		defer cancel()
		if err := other.SessionLock(short, c); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second lock: %v", err)
		}
		e.change(t, "UPDATE pglease_leases SET expires_at = clock_timestamp() WHERE task_name = $1", "migrate")
		if err := g.SessionUnlock(ctx, c); !errors.Is(err, pglease.ErrLost) {
			t.Errorf("unlocking what is lost: %v", err)
		}
	})
}
