// Package pyworker is a worker that shares the lease table in the way of the Python package, after its public source: plain SQL
// in transactions of its own, five columns, and its own clock for every time it writes or compares.
package pyworker

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// A Worker is one Python worker.
type Worker struct {
	DB    *sql.DB
	Owner string
	TTL   time.Duration
	Skew  time.Duration // how far its clock is ahead of this machine's
}

func (w *Worker) now() time.Time { return time.Now().Add(w.Skew).UTC() }

// A Hold is an open transaction that has locked the row of a name, or inserted it.
type Hold struct {
	tx   *sql.Tx
	Mine bool // the worker has, or has got, the lease in this transaction
}

// Commit ends the transaction.
func (h *Hold) Commit() error { return h.tx.Commit() }

// Rollback ends the transaction; after Commit it does nothing.
func (h *Hold) Rollback() { _ = h.tx.Rollback() }

// Begin does everything that acquiring does, but for the commit. After an error no transaction is open.
func (w *Worker) Begin(ctx context.Context, name string) (_ *Hold, err error) {
	tx, err := w.DB.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback()
		}
	}()
	var owner string
	var expires time.Time
	err = tx.QueryRowContext(ctx, "SELECT owner_id, expires_at FROM pglease_leases WHERE task_name = $1 FOR UPDATE", name).
		Scan(&owner, &expires)
	now := w.now()
	switch {
	case errors.Is(err, sql.ErrNoRows):
		_, err = tx.ExecContext(ctx,
			"INSERT INTO pglease_leases (task_name, owner_id, acquired_at, expires_at, heartbeat_at) VALUES ($1, $2, $3, $4, $5)",
			name, w.Owner, now, now.Add(w.TTL), now)
	case err != nil:
	case owner == w.Owner:
		_, err = tx.ExecContext(ctx,
			"UPDATE pglease_leases SET expires_at = $1, heartbeat_at = $2 WHERE task_name = $3", now.Add(w.TTL), now, name)
	case !expires.After(now):
		_, err = tx.ExecContext(ctx,
			"UPDATE pglease_leases SET owner_id = $1, acquired_at = $2, expires_at = $3, heartbeat_at = $4 WHERE task_name = $5",
			w.Owner, now, now.Add(w.TTL), now, name)
	default:
		return &Hold{tx: tx}, nil
	}
	if err != nil {
		return nil, err
	}
	return &Hold{tx: tx, Mine: true}, nil
}

// Acquire reports whether the worker has the lease now. Losing the race of two first inserts is an error, as it is for
// the Python worker: it tries again later.
func (w *Worker) Acquire(ctx context.Context, name string) (bool, error) {
	h, err := w.Begin(ctx, name)
	if err != nil {
		return false, err
	}
	defer h.Rollback()
	return h.Mine, h.Commit()
}

// Heartbeat reports whether the row is still the worker's. One that has expired is revived if nobody has taken it.
func (w *Worker) Heartbeat(ctx context.Context, name string) (bool, error) {
	now := w.now()
	result, err := w.DB.ExecContext(ctx,
		"UPDATE pglease_leases SET expires_at = $1, heartbeat_at = $2 WHERE task_name = $3 AND owner_id = $4",
		now.Add(w.TTL), now, name, w.Owner)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// Release deletes the row, if it is the worker's.
func (w *Worker) Release(ctx context.Context, name string) error {
	_, err := w.DB.ExecContext(ctx, "DELETE FROM pglease_leases WHERE task_name = $1 AND owner_id = $2", name, w.Owner)
	return err
}

// Cleanup deletes every row that has expired by the worker's clock, and returns how many.
func (w *Worker) Cleanup(ctx context.Context) (int64, error) {
	result, err := w.DB.ExecContext(ctx, "DELETE FROM pglease_leases WHERE expires_at < $1", w.now())
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
