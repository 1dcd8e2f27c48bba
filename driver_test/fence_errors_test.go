package driver_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// TestCheckInAReadOnlyTransaction (F3): it needs a row lock. The error names the transaction, not the server.
func TestCheckInAReadOnlyTransaction(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		db := e.open(t, k, e.dsn())
		l, err := client(t, db).TryAcquire(testContext(t), "name")
		if err != nil {
			t.Fatal(err)
		}
		err = l.CheckTx(testContext(t), begin(t, db, &sql.TxOptions{ReadOnly: true}))
		mustBeBackend(t, "check in a READ ONLY transaction", err, "25006", "transaction is read only")
		if contains(err, "standby") || contains(err, "primary") {
			t.Errorf("the error blames the server: %v", err)
		}
		if l.Err() != nil {
			t.Errorf("the lease was lost over it: %v", l.Err())
		}
	})
}

// TestCheckInATransactionThatIsOver: aborted by an earlier statement, or ended.
func TestCheckInATransactionThatIsOver(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		db := e.open(t, k, e.dsn())
		l, err := client(t, db).TryAcquire(testContext(t), "name")
		if err != nil {
			t.Fatal(err)
		}
		aborted := begin(t, db, nil)
		_, _ = aborted.Exec("SELECT 1/0")
		err = l.CheckTx(testContext(t), aborted)
		mustBeBackend(t, "check in an aborted transaction", err, "25P02", "aborted")
		if contains(err, "rollback would take the lease back") {
			t.Errorf("the error blames the lease's connection: %v", err)
		}
		ended := begin(t, db, nil)
		if err := ended.Commit(); err != nil {
			t.Fatal(err)
		}
		mustBeBackend(t, "check in a transaction that has ended", l.CheckTx(testContext(t), ended), "", "transaction has already been committed")
		if err := l.CheckTx(testContext(t), nil); err == nil {
			t.Error("check in no transaction")
		}
		if l.Err() != nil {
			t.Errorf("the lease was lost over it: %v", l.Err())
		}
	})
}

// TestCheckThatDeadlocks (F3): with somebody who has locked the row and then wants what this transaction has locked first.
func TestCheckThatDeadlocks(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		db := e.open(t, k, e.dsn())
		ctx := testContext(t)
		e.exec("CREATE TABLE work (id int PRIMARY KEY)")
		e.exec("INSERT INTO work VALUES (1)")
		l, err := client(t, db).TryAcquire(ctx, "name")
		if err != nil {
			t.Fatal(err)
		}
		const lockWork = "SELECT FROM work FOR UPDATE"
		// The server kills whoever has waited for deadlock_timeout first: the checking transaction.
		tx := begin(t, db, nil)
		if _, err := tx.Exec("SET LOCAL deadlock_timeout = '10ms'"); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(lockWork); err != nil {
			t.Fatal(err)
		}
		python := begin(t, db, nil)
		for _, s := range []string{"SET LOCAL deadlock_timeout = '1min'", "SELECT FROM pglease_leases WHERE task_name = 'name' FOR UPDATE"} {
			if _, err := python.Exec(s); err != nil {
				t.Fatal(err)
			}
		}
		waited := make(chan error, 1)
		go func() {
			_, err := python.Exec(lockWork)
			waited <- err
		}()
		eventually(t, "the other one to wait", func() bool {
			return value[int](e, "SELECT count(*)::int FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND application_name = $1", e.app) == 1
		})
		mustBeBackend(t, "check in a deadlock", l.CheckTx(ctx, tx), "40P01", "deadlock")
		if l.Err() != nil {
			t.Errorf("the lease was lost over it: %v", l.Err())
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := await(t, "the other one", waited); err != nil {
			t.Error(err)
		}
	})
}

// TestCheckWaitsBehindPython (F3): whose FOR UPDATE was there first; the context bounds it.
func TestCheckWaitsBehindPython(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		db := e.open(t, k, e.dsn())
		ctx := testContext(t)
		l, err := client(t, db).TryAcquire(ctx, "name")
		if err != nil {
			t.Fatal(err)
		}
		h, err := e.python(t, "python", time.Hour).Begin(ctx, "name")
		if err != nil {
			t.Fatal(err)
		}
		defer h.Rollback()
		bounded := begin(t, db, nil)
		err = l.CheckTx(canceledSoon(t, 100*time.Millisecond), bounded)
		if err == nil || errors.Is(err, pglease.ErrLost) || l.Err() != nil {
			t.Errorf("check until a deadline: %v, the lease: %v", err, l.Err())
		}
		_ = bounded.Rollback()
		waits := begin(t, db, nil)
		checked := make(chan error, 1)
		go func() { checked <- l.CheckTx(ctx, waits) }()
		eventually(t, "the check to wait", func() bool {
			return value[int](e, "SELECT count(*)::int FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND application_name = $1", e.app) == 1
		})
		h.Rollback()
		if err := await(t, "the check", checked); err != nil {
			t.Error(err)
		}
	})
}
