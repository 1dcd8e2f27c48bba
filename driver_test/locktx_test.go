package driver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// mustLockTx checks whether tx gets the lock.
func mustLockTx(t *testing.T, tx *sql.Tx, name string, want bool) {
	t.Helper()
	if got, err := pglease.TryLockTx(testContext(t), tx, name); err != nil || got != want {
		t.Errorf("TryLockTx(%q) = %v, %v; want %v", name, got, err, want)
	}
}

// freeLockTx waits until name can be locked.
func freeLockTx(t *testing.T, db *sql.DB, name string) {
	t.Helper()
	eventually(t, "the lock of "+name+" to be free", func() bool {
		tx := begin(t, db, nil)
		defer tx.Rollback()
		got, err := pglease.TryLockTx(testContext(t), tx, name)
		if err != nil {
			t.Fatal(err)
		}
		return got
	})
}

// A transaction's lock keeps others out of the same name only, is granted to the same transaction again, and is gone with the
// transaction, however that ends: commit, rollback, or the end of its session.
func TestLockTxLastsAsLongAsItsTransaction(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		name := e.schema // advisory locks are the database's, and other tests run beside this one
		db := e.open(t, k, e.dsn())
		for end, f := range map[string]func(tx *sql.Tx) error{
			"commit":   (*sql.Tx).Commit,
			"rollback": (*sql.Tx).Rollback,
			"the end of its session": func(tx *sql.Tx) error {
				var pid int
				if err := tx.QueryRow("SELECT pg_backend_pid()").Scan(&pid); err != nil {
					return err
				}
				e.exec("SELECT pg_terminate_backend($1)", pid)
				return nil
			},
		} {
			holder, other := begin(t, db, nil), begin(t, db, nil)
			mustLockTx(t, holder, name, true)
			mustLockTx(t, holder, name, true)
			if err := pglease.LockTx(testContext(t), holder, name); err != nil {
				t.Errorf("LockTx of what it has: %v", err)
			}
			mustLockTx(t, other, name, false)
			mustLockTx(t, other, name+" ", true)
			waited := make(chan error, 1)
			waiter := begin(t, db, nil)
			go func() { waited <- pglease.LockTx(testContext(t), waiter, name) }()
			eventually(t, "the waiter to wait", func() bool {
				return value[int](e, "SELECT count(*)::int FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND application_name = $1", e.app) == 1
			})
			if err := f(holder); err != nil {
				t.Errorf("%s: %v", end, err)
			}
			if err := await(t, "the waiter after "+end, waited); err != nil {
				t.Errorf("the waiter after %s: %v", end, err)
			}
			mustLockTx(t, other, name, false)
			for _, tx := range []*sql.Tx{holder, waiter, other} {
				_ = tx.Rollback()
			}
			freeLockTx(t, db, name)
		}
	})
}

// Transactions' locks have names of their own: a lease of the same name and they do not meet, hybrid or not.
func TestLockTxNeverMeetsALease(t *testing.T) {
	noGoroutineLeft(t)
	for _, k := range two {
		for _, mode := range modes {
			t.Run(k.name+"/"+mode.name, func(t *testing.T) {
				e := newEnv(t).table()
				name := e.schema
				db := e.open(t, k, e.dsn())
				c := client(t, db, mode.opts...)
				l, err := c.TryAcquire(testContext(t), name)
				if err != nil {
					t.Fatal(err)
				}
				tx := begin(t, db, nil)
				mustLockTx(t, tx, name, true)
				if err := l.Release(testContext(t)); err != nil {
					t.Fatal(err)
				}
				tryOnce(t, c, name) // while the transaction has the lock
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// A wait that something ends says what it was, and that the transaction is over, which is true: nothing works in it any more, and
// what it had locked before is free after its rollback. Nobody is left with the lock (T1, T6).
func TestLockTxSaysWhatEndedItsWait(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		name := e.schema
		db := e.open(t, k, e.dsn())
		holder := begin(t, db, nil)
		mustLockTx(t, holder, name, true)
		for _, end := range []struct {
			name, setting string
			context       func() context.Context
			state, text   string
			is            error
		}{
			{"lock_timeout", "SET LOCAL lock_timeout = '100ms'", nil, "55P03", "lock_timeout struck", nil},
			{"statement_timeout", "SET LOCAL statement_timeout = '100ms'", nil, "57014", "statement_timeout struck", nil},
			{"a context's deadline", "", func() context.Context { return canceledSoon(t, 100*time.Millisecond) }, "", "the context ended first", context.DeadlineExceeded},
			{"a cancelled context", "", func() context.Context {
				ctx, cancel := context.WithCancel(testContext(t))
				time.AfterFunc(100*time.Millisecond, cancel)
				return ctx
			}, "", "the context ended first", context.Canceled},
		} {
			tx := begin(t, db, nil)
			mustLockTx(t, tx, name+" before", true)
			if end.setting != "" {
				if _, err := tx.Exec(end.setting); err != nil {
					t.Fatal(err)
				}
			}
			ctx := testContext(t)
			if end.context != nil {
				ctx = end.context()
			}
			err := pglease.LockTx(ctx, tx, name)
			var b *pglease.BackendError
			if !errors.As(err, &b) || end.state != "" && b.SQLState != end.state || end.is != nil && !errors.Is(err, end.is) ||
				!strings.Contains(err.Error(), end.text) || !strings.Contains(err.Error(), "the transaction is over") {
				t.Errorf("%s: %v", end.name, err)
			}
			if _, err := tx.Exec("SELECT 1"); err == nil {
				t.Errorf("%s: the transaction goes on", end.name)
			}
			_ = tx.Rollback()
			freeLockTx(t, db, name+" before")
		}
		if err := holder.Commit(); err != nil {
			t.Fatal(err)
		}
		freeLockTx(t, db, name)
	})
}

// Transactions that take two locks in different orders deadlock: the server ends one of them, whose error says so.
func TestLockTxDeadlockIsNamed(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		db := e.open(t, k, e.dsn())
		a, b := begin(t, db, nil), begin(t, db, nil)
		mustLockTx(t, a, e.schema+"a", true)
		mustLockTx(t, b, e.schema+"b", true)
		result := make(chan error, 2)
		for tx, name := range map[*sql.Tx]string{a: e.schema + "b", b: e.schema + "a"} {
			go func() {
				err := pglease.LockTx(testContext(t), tx, name)
				_ = tx.Rollback()
				result <- err
			}()
		}
		first, second := await(t, "one end", result), await(t, "the other end", result)
		if first == nil {
			first, second = second, first
		}
		mustBeBackend(t, "the victim", first, "40P01", "another transaction took locks in another order", "the transaction is over")
		if second != nil {
			t.Errorf("the other one: %v", second)
		}
	})
}

// What the lock is for: writes of many transactions, one after the other.
func TestLockTxExcludes(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		e.exec("CREATE TABLE counter (n bigint NOT NULL)")
		e.exec("INSERT INTO counter VALUES (0)")
		const workers, rounds = 8, 20
		var wg sync.WaitGroup
		db := e.open(t, k, e.dsn())
		for range workers {
			wg.Go(func() {
				for range rounds {
					if err := lockedIncrement(testContext(t), db, e.schema); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		if n := value[int](e, "SELECT n::int FROM counter"); n != workers*rounds {
			t.Errorf("the counter says %d after %d rounds: updates were lost", n, workers*rounds)
		}
	})
}

func lockedIncrement(ctx context.Context, db *sql.DB, name string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := pglease.LockTx(ctx, tx, name); err != nil {
		return err
	}
	var n int64
	if err := tx.QueryRowContext(ctx, "SELECT n FROM counter").Scan(&n); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE counter SET n = %d", n+1)); err != nil {
		return err
	}
	return tx.Commit()
}
