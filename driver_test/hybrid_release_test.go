package driver_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// A release whose context ended on the way has cost the session. Called again, it frees the row all the same, for table-mode workers
// too: nil says that the term is over.
func TestHybridReleaseAgainFreesTheRow(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		ctx := testContext(t)
		c := hybridClient(t, e.open(t, k, e.dsn()))
		l, err := c.TryAcquire(ctx, e.schema)
		if err != nil {
			t.Fatal(err)
		}
		looks, err := e.admin.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer looks.Rollback()
		if _, err := looks.Exec("SELECT 1 FROM pglease_leases WHERE task_name = $1 FOR UPDATE", e.schema); err != nil {
			t.Fatal(err)
		}
		if err := l.Release(canceledSoon(t, 100*time.Millisecond)); err == nil || errors.Is(err, pglease.ErrLost) {
			t.Fatalf("a release while somebody has the row: %v; want an unknown outcome", err)
		}
		if err := looks.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := l.Release(ctx); err != nil {
			t.Fatalf("released again: %v", err)
		}
		if info, err := c.Get(ctx, e.schema); err != nil || !info.Expired() {
			t.Errorf("after that the row is held for another %v: %v", info.Remaining(), err)
		}
		tryOnce(t, client(t, e.open(t, k, e.dsn())), e.schema)
	})
}
