package pglease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
)

// keeper lends connections, and keeps one of them back for as long as there are leases, so that an application that has
// drained its pool does not lose them (P6). It does so only if the pool has no limit, or one of at least 3: from a smaller
// one it would take too much.
type keeper struct {
	pool   pool
	pinned func() int // connections that hybrid leases have taken for good; nil: none

	mu    sync.Mutex
	kept  *lent
	terms map[Term]struct{} // leases held
}

// lent is a connection in somebody's hands, or, if it is the kept one and not busy, in the keeper's.
type lent struct {
	*sql.Conn
	busy bool
}

// fresh lends a connection from the pool. It waits for one as long as ctx allows.
func (k *keeper) fresh(ctx context.Context) (*lent, error) {
	if limit := k.pool.Stats().MaxOpenConnections; k.pinned != nil && limit > 0 && k.pinned() >= limit {
		return nil, allPinned(limit) // waiting for one could last for ever (P2)
	}
	conn, err := k.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &lent{Conn: conn, busy: true}, nil
}

// borrow lends the kept connection if it is at hand, or else one from the pool.
func (k *keeper) borrow(ctx context.Context) (*lent, error) {
	k.mu.Lock()
	if l := k.kept; l != nil && !l.busy {
		l.busy = true
		k.mu.Unlock()
		return l, nil
	}
	k.mu.Unlock()
	return k.fresh(ctx)
}

// giveBack takes a lent connection after a statement that ended with err. It keeps it if there are leases and it has
// none, or one that somebody does not give back (a driver may hang on it); otherwise the pool gets it.
func (k *keeper) giveBack(l *lent, err error) {
	k.mu.Lock()
	l.busy = false
	keep := err == nil && len(k.terms) > 0 && (k.kept == nil || k.kept == l || k.kept.busy) && k.mayKeep()
	switch {
	case keep:
		k.kept = l
	case k.kept == l:
		k.kept = nil
	}
	k.mu.Unlock()
	if !keep {
		putBack(l.Conn, err)
	}
}

// began and ended keep the list of leases. With the last one goes the kept connection.
func (k *keeper) began(t Term) {
	k.mu.Lock()
	k.terms[t] = struct{}{}
	k.mu.Unlock()
}

func (k *keeper) ended(t Term) {
	k.mu.Lock()
	delete(k.terms, t)
	var idle *lent
	if len(k.terms) == 0 && k.kept != nil && !k.kept.busy {
		idle, k.kept = k.kept, nil
	}
	k.mu.Unlock()
	if idle != nil {
		putBack(idle.Conn, nil)
	}
}

func (k *keeper) mayKeep() bool {
	limit := k.pool.Stats().MaxOpenConnections
	return limit == 0 || limit >= 3
}

// putBack gives conn back to its pool; the driver tells the pool if it is broken. A session that is read only is
// destroyed: behind the same address there may be a primary again (S6).
func putBack(conn *sql.Conn, err error) {
	if stateOf(err) == stateReadOnly {
		destroy(conn)
		return
	}
	_ = conn.Close()
}

// run sends a statement on a lent connection: the kept one if preferred and at hand. A connection that the server has
// closed long ago shows that only now, by driver.ErrBadConn, the driver's promise that nothing was sent; the pool may
// have as many of them as it has idle ones, and each attempt removes one.
func (k *keeper) run(ctx context.Context, preferKept bool, f func(statements) error) error {
	lend := k.fresh
	if preferKept {
		lend = k.borrow
	}
	for stale := -1; ; stale-- {
		conn, err := lend(ctx)
		if err != nil {
			return &unsentError{err}
		}
		err = f(statements{conn.Conn})
		k.giveBack(conn, err)
		if !errors.Is(err, driver.ErrBadConn) || ctx.Err() != nil {
			return err
		}
		if stale == -1 {
			stale = k.pool.Stats().Idle + 2
		}
		if stale == 0 {
			return err
		}
	}
}

// unsentError marks an error of a statement that was never sent.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }
