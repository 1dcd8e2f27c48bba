package driver_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/pglease/pglease-go/pglease"
)

// TestCheckLooksAtTheClock (C1): in a transaction that began while the term was current, now() stands still. The expiry is
// judged by the clock all the same; were the row not locked, another could have it by the time of the commit.
func TestCheckLooksAtTheClock(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		ctx := testContext(t)
		db := e.open(t, k, e.dsn())
		l, err := client(t, db).TryAcquire(ctx, "clock")
		if err != nil {
			t.Fatal(err)
		}
		tx := begin(t, db, nil)
		var one int
		if err := tx.QueryRowContext(ctx, "SELECT 1").Scan(&one); err != nil { // the transaction's time is taken here
			t.Fatal(err)
		}
		e.exec("UPDATE pglease_leases SET expires_at = clock_timestamp() WHERE task_name = 'clock'")
		if err := l.CheckTx(ctx, tx); !errors.Is(err, pglease.ErrLost) {
			t.Errorf("CheckTx of a term that expired after the transaction had begun: %v; want ErrLost", err)
		}
		if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
			t.Error(err)
		}
	})
}
