package pglease

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/pglease/pglease-go/db"
)

const (
	// secondWait is how long the pre-flight waits for a second connection of the pool.
	secondWait = time.Second
	// looks is how often it looks at two sessions, in a random order: whatever a pooler in transaction mode does, it does not know the
	// order, and two connections come by two sessions each time with a chance of 1 in 2 to the power of this, less the few whose order it knows.
	looks = 20
	// looksAtOne is how often it looks if there is one connection.
	looksAtOne = 3
)

// useTable is the way out of most of what the pre-flight finds.
const useTable = "use the table backend, or a direct connection to a PostgreSQL primary"

// sessions is what a client knows of the sessions behind its pool, or its given connection.
type sessions struct {
	pool  pool // nil if there is a given connection
	given DB
	turn  chan struct{} // of the given connection

	checking chan struct{} // holds a token while nobody is at the pre-flight

	mu                 sync.Mutex
	checked, witnessed bool

	watchable sync.Once
	canWait   bool
}

func newSessions(p pool, given DB, turn chan struct{}) *sessions {
	s := &sessions{pool: p, given: given, turn: turn, checking: make(chan struct{}, 1)}
	s.checking <- struct{}{}
	return s
}

// preflight finds out, once per client, whether sessions can be relied on: the server can be written to, two connections are
// two sessions that stay what they are, and an advisory lock that one has is refused to the other (S1, S2, S5). With
// one connection the second half cannot be known (witnessed is false): such a client writes no evidence, its leases are never
// taken early, and it prepares nothing. Once it has its connections it goes on for as long as looking does, since what it finds is for
// everybody who comes after.
func (s *sessions) preflight(ctx, looking context.Context) (witnessed bool, err error) {
	select {
	case <-s.checking:
	case <-ctx.Done():
		return false, &unsentError{ctx.Err()}
	}
	var once sync.Once
	next := func() { once.Do(func() { s.checking <- struct{}{} }) }
	defer next()
	if checked, witnessed := s.inspected(); checked {
		return witnessed, nil
	}
	if err := looking.Err(); err != nil {
		return false, &unsentError{err}
	}
	var first, second *probe
	if s.pool == nil {
		waiting, cancel := limit(ctx, attemptTimeout)
		select {
		case <-s.turn:
			cancel()
			defer func() { s.turn <- struct{}{} }()
		case <-waiting.Done():
			cancel()
			return false, &unsentError{waiting.Err()}
		}
		first = &probe{statements: statements{s.given}, hangs: next}
	} else {
		a, connErr := s.pool.Conn(ctx)
		if connErr != nil {
			return false, &unsentError{connErr}
		}
		defer func() { putBackProbed(a, err) }()
		first = &probe{statements: statements{a}, hangs: next}
		if s.pool.Stats().MaxOpenConnections != 1 {
			soon, cancel := context.WithTimeout(ctx, secondWait)
			b, secondErr := s.pool.Conn(soon)
			cancel()
			if secondErr == nil {
				defer func() { putBackProbed(b, err) }()
				second = &probe{statements: statements{b}, hangs: next}
			} else if ctx.Err() != nil {
				return false, &unsentError{secondErr}
			}
		}
	}
	if err := inspect(looking, first, second); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.witnessed = second != nil
	// Without a second connection because the pool was busy, the next attempt looks again.
	s.checked = second != nil || s.pool == nil || s.pool.Stats().MaxOpenConnections == 1
	return s.witnessed, nil
}

func (s *sessions) inspected() (checked, witnessed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checked, s.witnessed
}

// canWatch reports whether the driver, of which that is a connection, can wait for the server. All connections of a pool are of one kind.
func (s *sessions) canWatch(conn statements) bool {
	s.watchable.Do(func() {
		if raw, ok := conn.DB.(session); ok {
			_ = raw.Raw(func(driverConn any) error {
				s.canWait = notificationWait(driverConn) != nil
				return nil
			})
		}
	})
	return s.canWait
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
	hangs func() // is called if a statement takes too long: the driver may hang, but not everybody who waits for the pre-flight
	pid   int32  // 0: nobody has looked
	mark  string // what the session was marked with last
}

// limit returns a context for one statement.
func (p *probe) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := limit(ctx, callTimeout)
	stop := context.AfterFunc(ctx, p.hangs)
	return ctx, func() { stop(); cancel() }
}

// look sees whether the session is the one of the look before, and marks it.
func (p *probe) look(ctx context.Context, mark string) error {
	ctx, cancel := p.limit(ctx)
	defer cancel()
	row, err := queries.DescribeSession(ctx, p, mark)
	switch {
	case err != nil:
		return err
	case row.Standby || row.ReadOnly:
		_, _ = queries.DescribeSession(ctx, p, "") // the mark of a connection that is not ours to destroy
		return &UnsupportedError{"the server is read only (a standby, or default_transaction_read_only), and its advisory locks are its own", useTable}
	case p.pid != 0 && (row.PID != p.pid || row.Found != p.mark):
		return pooled("a connection changed its session between two statements")
	}
	p.pid, p.mark = row.PID, mark
	return nil
}

// try sends a statement about the lock of a key.
func (p *probe) try(ctx context.Context, send func(context.Context, db.DBTX, int64) (bool, error), key int64) (bool, error) {
	ctx, cancel := p.limit(ctx)
	defer cancel()
	return send(ctx, p, key)
}

// inspect looks at the sessions behind one or two connections, each several times. It leaves no lock and no mark.
func inspect(ctx context.Context, first, second *probe) error {
	both, most := []*probe{first}, looksAtOne
	if second != nil {
		both, most = append(both, second), looks
	}
	for range most - len(both) {
		if err := both[rand.IntN(len(both))].look(ctx, strconv.FormatUint(rand.Uint64(), 36)); err != nil {
			return err
		}
		if second != nil && first.pid == second.pid {
			return pooled("two connections share one session")
		}
	}
	for _, p := range both {
		if err := p.look(ctx, ""); err != nil {
			return err
		}
	}
	if second == nil {
		return nil
	}
	if first.pid == second.pid {
		return pooled("two connections share one session")
	}
	ctx = context.WithoutCancel(ctx) // between the lock and the unlock, a session must not be lost (see soundly)
	probeKey := rand.Int64()
	won, err := first.try(ctx, queries.ProbeLock, probeKey)
	if err != nil {
		return err
	}
	stolen, conflictErr := second.try(ctx, queries.ProbeConflict, probeKey)
	unlocked, err := first.try(ctx, queries.ProbeUnlock, probeKey)
	moved := false
	for try := 0; try < 40 && !unlocked && (err == nil || statementMoved(err)); try++ {
		// A pooler has moved the first connection after all: look for the session with the lock.
		moved = true
		unlocked, err = both[try%2].try(ctx, queries.ProbeUnlock, probeKey)
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
