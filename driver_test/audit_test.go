package driver_test

import (
	"errors"
	"testing"

	"github.com/pglease/pglease-go/pglease"
)

// TestAuditWhatTheSuiteDoesNotSend has clients send the statements that the conformance suite has no use for, and nothing else, so
// that "make audit" sees every one: a missing table, its creation, and locks of a transaction.
func TestAuditWhatTheSuiteDoesNotSend(t *testing.T) {
	noGoroutineLeft(t)
	for _, k := range two {
		t.Run(k.name, func(t *testing.T) {
			e := newEnv(t)
			ctx := testContext(t)
			db := e.open(t, k, e.dsn())
			c := client(t, db)
			if _, err := c.TryAcquire(ctx, "name"); !errors.Is(err, pglease.ErrNoSchema) {
				t.Errorf("without a table: %v, want ErrNoSchema", err)
			}
			for range 2 {
				if err := c.EnsureSchema(ctx); err != nil {
					t.Fatal(err)
				}
			}
			mustRelease(t, mustTry(t, c, "name"))
			tx := begin(t, db, nil)
			if locked, err := pglease.TryLockTx(ctx, tx, e.schema); !locked || err != nil {
				t.Errorf("TryLockTx: %v, %v", locked, err)
			}
			if err := pglease.LockTx(ctx, tx, e.schema+"2"); err != nil {
				t.Errorf("LockTx: %v", err)
			}
			if err := tx.Commit(); err != nil {
				t.Error(err)
			}
		})
	}
}
