package pglease

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"sync/atomic"
	"time"
)

// A preparation is the decision of a table-mode client to have its statements prepared (see prepared). Most clients send a few
// statements a minute, and it is not worth a question; so it is put when a client has asked often, and only where the
// driver prepares nothing by itself.
type preparation struct {
	asked atomic.Int64 // how often a statement was sent that would be prepared
	next  atomic.Int64 // how often it must be before the next look
	ready atomic.Bool
}

const (
	// secondSoon is how long the pre-flight waits for a second connection of a busy pool.
	secondSoon = 10 * time.Millisecond
	// preparesAfter is how many statements make a client one that asks often. If the pool was busy then, it is asked again after four
	// times as many.
	preparesAfter = 32
)

// count notes a statement that would be prepared.
func (p *preparation) count() { p.asked.Add(1) }

// look makes the pre-flight when it is due. It fails in silence: what it says of a server that hybrid cannot use is no fault
// in table mode.
func (p *preparation) look(ctx context.Context, s *sessions) {
	asked, next := p.asked.Load(), p.next.Load()
	if s.pool == nil || asked < max(next, preparesAfter) || !p.next.CompareAndSwap(next, math.MaxInt64) {
		return
	}
	conn, err := s.pool.Conn(ctx)
	if err != nil {
		p.next.Store(4 * asked)
		return
	}
	prepares := s.canWatch(statements{conn}) // as pgx does, which can wait, too
	_ = conn.Close()
	if prepares {
		return
	}
	witnessed, err := s.preflight(ctx, secondSoon)
	switch {
	case witnessed:
		p.ready.Store(true)
	case !errors.As(err, new(*UnsupportedError)):
		p.next.Store(4 * asked)
	}
}

// on returns how statements are sent on that connection.
func (p *preparation) on(conn *sql.Conn) statements {
	if p.ready.Load() {
		return statements{preparing{conn, &prepared}}
	}
	return statements{conn}
}
