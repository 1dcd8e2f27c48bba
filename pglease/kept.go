package pglease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
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
	broke time.Time         // when a connection broke last: the idle ones may be just as old
}

// lent is a connection in somebody's hands, or, if it is the kept one and not busy, in the keeper's.
type lent struct {
	*sql.Conn
	busy  bool
	doubt bool // it is kept since before another one broke
}

// doubtFor is for how long connections are pinged before they are used, after one has broken. Those that are idle for longer
// are pinged by pgx itself; lib/pq tells of a dead one by driver.ErrBadConn.
const doubtFor = 2 * time.Second

// mostDead is how many dead connections are taken out of a pool at a time. A pool behind the pool (pgxpool) does not tell how
// many it has.
const mostDead = 50

// fresh lends a connection from the pool. It waits for one as long as ctx allows. After a restart of the server the pool has
// as many dead connections as it has idle ones, and pgx tells of one only when a statement is lost with it: after such a
// loss, connections are pinged first.
func (k *keeper) fresh(ctx context.Context) (*lent, error) {
	if limit := k.pool.Stats().MaxOpenConnections; k.pinned != nil && limit > 0 && k.pinned() >= limit {
		return nil, allPinned(limit) // waiting for one could last for ever (P2)
	}
	conn, err := k.sound(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("waiting for a connection of the pool: %w", err)
	}
	if err != nil {
		return nil, err
	}
	return &lent{Conn: conn, busy: true}, nil
}

// sound takes a connection from the pool, after a ping if it may be dead.
func (k *keeper) sound(ctx context.Context) (*sql.Conn, error) {
	for dead := 1; ; dead++ {
		conn, err := k.pool.Conn(ctx)
		if err != nil {
			return nil, err
		}
		if !k.inDoubt() {
			return conn, nil
		}
		if err = conn.PingContext(ctx); err == nil {
			return conn, nil
		}
		destroy(conn)
		if ctx.Err() != nil || dead == mostDead {
			return nil, err
		}
	}
}

func (k *keeper) inDoubt() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.broke.IsZero() && time.Since(k.broke) < doubtFor
}

// noteBroken remembers that a connection broke just now.
func (k *keeper) noteBroken() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broke = time.Now()
	if k.kept != nil {
		k.kept.doubt = true
	}
}

// broken reports whether a statement failed together with its connection, and not because its context has ended.
func broken(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil || errors.Is(err, sql.ErrNoRows) || errors.Is(err, errAskAgain) || errors.As(err, new(*UnsupportedError)) {
		return false
	}
	state := stateOf(err)
	return state == "" || strings.HasPrefix(state, "57P")
}

// borrow lends the kept connection if it is at hand, or else one from the pool.
func (k *keeper) borrow(ctx context.Context) (*lent, error) {
	k.mu.Lock()
	l := k.kept
	if l == nil || l.busy {
		k.mu.Unlock()
		return k.fresh(ctx)
	}
	l.busy = true
	doubt := l.doubt
	l.doubt = false
	k.mu.Unlock()
	if doubt {
		if err := l.PingContext(ctx); err != nil {
			k.giveBack(l, driver.ErrBadConn)
			return k.fresh(ctx)
		}
	}
	return l, nil
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
// closed long ago shows that only now, by driver.ErrBadConn, after which a statement may be sent again; the pool may
// have as many of them as it has idle ones, and each attempt removes one.
func (k *keeper) run(ctx context.Context, preferKept bool, f func(*sql.Conn) error) error {
	lend := k.fresh
	if preferKept {
		lend = k.borrow
	}
	for stale := -1; ; stale-- {
		conn, err := lend(ctx)
		if err != nil {
			return &unsentError{err}
		}
		err = f(conn.Conn)
		k.giveBack(conn, err)
		if broken(ctx, err) {
			k.noteBroken()
		}
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
