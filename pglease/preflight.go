package pglease

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// secondWait is how long the pre-flight waits for a second connection of the pool.
const secondWait = time.Second

// useTable is the way out of most of what the pre-flight finds.
const useTable = "use the table backend, or a direct connection to a PostgreSQL primary"

// preflight finds out, once per client, whether sessions can be relied on: the server can be written to, two connections are
// two sessions that stay what they are, and an advisory lock that one has is refused to the other (S1, S2, S5). With one
// connection the second half cannot be known (witnessed is false): such a client writes no evidence, and its leases are never
// taken early.
func (h *hybridBackend) preflight(ctx context.Context) (witnessed bool, err error) {
	select {
	case <-h.checking:
	case <-ctx.Done():
		return false, &unsentError{ctx.Err()}
	}
	var once sync.Once
	next := func() { once.Do(func() { h.checking <- struct{}{} }) }
	defer next()
	if checked, witnessed := h.inspected(); checked {
		return witnessed, nil
	}
	var first, second *probe
	if h.given != nil {
		first = &probe{statements: h.direct()}
	} else {
		a, connErr := h.keeper.pool.Conn(ctx)
		if connErr != nil {
			return false, &unsentError{connErr}
		}
		defer func() { putBackProbed(a, err) }()
		first = &probe{statements: statements{a}}
		if h.keeper.pool.Stats().MaxOpenConnections != 1 {
			soon, cancel := context.WithTimeout(ctx, secondWait)
			b, secondErr := h.keeper.pool.Conn(soon)
			cancel()
			if secondErr == nil {
				defer func() { putBackProbed(b, err) }()
				second = &probe{statements: statements{b}}
			} else if ctx.Err() != nil {
				return false, &unsentError{secondErr}
			}
		}
	}
	// It is for everybody who comes after, and does not end with the caller's context: between the lock and the unlock, a
	// session must not be lost (see soundly).
	ctx, cancel := limit(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, next)() // the driver may hang, but not everybody behind it
	if err := inspect(ctx, first, second); err != nil {
		return false, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.witnessed = second != nil
	// Without a second connection because the pool was busy, the next attempt looks again.
	h.checked = second != nil || h.given != nil || h.keeper.pool.Stats().MaxOpenConnections == 1
	return h.witnessed, nil
}

func (h *hybridBackend) inspected() (checked, witnessed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.checked, h.witnessed
}

// putBackProbed gives a connection of the pre-flight back if the pre-flight has passed. Otherwise the session may have a mark,
// or the lock.
func putBackProbed(conn *sql.Conn, err error) {
	if err != nil {
		destroy(conn)
		return
	}
	putBack(conn, nil)
}

// A probe is one connection of the pre-flight.
type probe struct {
	statements
	pid  int32
	mark string // what the session was marked with last
}

// inspect looks at the sessions behind one or two connections. It leaves no lock and no mark.
func inspect(ctx context.Context, first, second *probe) error {
	both := []*probe{first}
	if second != nil {
		both = append(both, second)
	}
	const looks = 3
	for look := range looks {
		for _, p := range both {
			mark := strconv.FormatUint(rand.Uint64(), 36)
			if look == looks-1 {
				mark = ""
			}
			row, err := queries.DescribeSession(ctx, p, mark)
			switch {
			case err != nil:
				return err
			case row.Standby || row.ReadOnly:
				_, _ = queries.DescribeSession(ctx, p, "") // the mark of a connection that is not ours to destroy
				return &UnsupportedError{"the server is read only (a standby, or default_transaction_read_only), and its advisory locks are its own", useTable}
			case look > 0 && (row.PID != p.pid || row.Found != p.mark):
				return pooled("a connection changed its session between two statements")
			}
			p.pid, p.mark = row.PID, mark
		}
		if second != nil && first.pid == second.pid {
			return pooled("two connections share one session")
		}
	}
	if second == nil {
		return nil
	}
	probeKey := rand.Int64()
	won, err := queries.ProbeLock(ctx, first, probeKey)
	if err != nil {
		return err
	}
	stolen, conflictErr := queries.ProbeConflict(ctx, second, probeKey)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	unlocked, err := queries.ProbeUnlock(ctx, first, probeKey)
	moved := false
	for try := 0; try < 40 && !unlocked && (err == nil || statementMoved(err)); try++ {
		// A pooler has moved the first connection after all: look for the session with the lock.
		moved = true
		unlocked, err = queries.ProbeUnlock(ctx, both[try%2], probeKey)
	}
	if moved && unlocked {
		return pooled("a connection changed its session between two statements")
	}
	switch {
	case err != nil:
		return err
	case conflictErr != nil:
		return conflictErr
	case !won || stolen || !unlocked:
		return &UnsupportedError{fmt.Sprintf("advisory locks do not exclude here (won: %t, won again by another session: %t, unlocked: %t)", won, stolen, unlocked), useTable}
	}
	return nil
}

// statementMoved reports whether err is how a server answers a statement that another of its sessions has prepared, or has
// prepared before: only a pooler in transaction mode leads there. lib/pq's has no name, and the server may take it for another.
func statementMoved(err error) bool {
	switch stateOf(err) {
	case stateStatementMissing, stateStatementExists, stateProtocol:
		return true
	}
	return false
}

func pooled(how string) error {
	return &UnsupportedError{"a pooler in transaction or statement mode is in between (" + how + ")", useTable}
}
