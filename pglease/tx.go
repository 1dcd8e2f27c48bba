package pglease

import (
	"context"
	"database/sql"
	"errors"
)

// CheckTx proves inside tx that the lease is held, and lets nobody else have it until tx ends, whatever happens to this
// process: what tx writes is written under the lease, even if it commits after the TTL. It is to be the first statement of
// tx: what comes before it is done without the proof. After any error of it tx is over: roll back.
//
// The lease's own heartbeats go on. Rolling back to a savepoint set before CheckTx undoes it. A few transactions at a time
// may guard one lease, not thousands.
//
// It returns a *LostError or ErrReleased if the lease is not held, and a *BackendError if the server could not tell: with
// SQLState 40001 (above READ COMMITTED) the transaction is to be retried.
func (l *Lease) CheckTx(ctx context.Context, tx *sql.Tx) error {
	if tx == nil {
		return errors.New("pglease: CheckTx: the transaction is nil")
	}
	if err := l.Err(); err != nil {
		return err
	}
	c := l.client
	_, err := call(ctx, c, "check", Zombie{Name: l.term.Name, Token: l.term.Token, Kind: ZombieCall},
		func(ctx context.Context) (struct{}, error) {
			return struct{}{}, c.backend.Check(ctx, tx, l.term)
		}, nil)
	if errors.Is(err, ErrLost) {
		l.lost(LossGone, nil)
		return l.Err()
	}
	if err != nil {
		return err
	}
	return l.Err()
}

// CheckQuery returns what CheckTx sends, for transactions that are not a *sql.Tx. It returns one row of one bool: whether
// the lease is held. Check Err after it, too: above READ COMMITTED the row alone does not tell whether it has expired.
func (l *Lease) CheckQuery() (query string, args []any) {
	return l.client.backend.CheckQuery(l.term)
}
