package pglease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pglease/pglease-go/pglease/internal/key"
)

// TryLockTx takes a lock of name that lasts until tx ends, by commit, rollback or disconnect, and reports whether it got it. It
// does not wait. It is for short exclusivity around writes of the same transaction: no row, no TTL, nothing to release or to
// renew, and nobody can see who holds it. Such locks have a space of names of their own: they never meet leases. The same
// transaction is granted the same lock twice.
func TryLockTx(ctx context.Context, tx *sql.Tx, name string) (bool, error) {
	if err := checkLock(tx, name); err != nil {
		return false, err
	}
	locked, err := queries.TryLockTransaction(ctx, tx, key.Transaction(name))
	return locked, lockFault(ctx, err)
}

// LockTx waits for the lock that TryLockTx tries for, for as long as ctx, and the lock_timeout and statement_timeout of tx,
// allow. The error says which of them struck. After any error tx is over: roll back. Two transactions that take several locks
// in different orders can deadlock (40P01).
func LockTx(ctx context.Context, tx *sql.Tx, name string) error {
	if err := checkLock(tx, name); err != nil {
		return err
	}
	return lockFault(ctx, queries.LockTransaction(ctx, tx, key.Transaction(name)))
}

func checkLock(tx *sql.Tx, name string) error {
	if tx == nil {
		return errors.New("pglease: the transaction is nil")
	}
	return checkName(name)
}

func lockFault(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	e := newBackendError("lock", err, nil)
	why := ""
	switch {
	case ctx.Err() != nil:
		why = "the context ended first"
	case e.SQLState == stateLockNotAvailable:
		why = "lock_timeout struck"
	case e.SQLState == stateQueryCanceled:
		why = "statement_timeout struck, or somebody cancelled the statement"
	case e.SQLState == stateTransactionTimeout:
		why = "transaction_timeout struck"
	case e.SQLState == stateDeadlock:
		why = "another transaction took locks in another order"
	default:
		return e
	}
	e.text = fmt.Sprintf("%s, and the transaction is over: %s", why, e.text)
	if ctxErr := ctx.Err(); ctxErr != nil {
		e.cause = func() error { return errors.Join(ctxErr, err) }
	}
	return e
}
