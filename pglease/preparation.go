package pglease

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"sync/atomic"
)

// A preparation is the decision of a table-mode client to have its statements prepared (see prepared). Most clients send a few
// statements a minute, and it is not worth a question; so it is put when a client has asked often, and only where the
// driver prepares nothing by itself.
type preparation struct {
	inBackground func(func(context.Context)) // with a context that ends when the client is closed; nil: it decides against it

	asked atomic.Int64 // how often a statement was sent that would be prepared
	next  atomic.Int64 // how often it must be before the next look
	ready atomic.Bool
}

const (
	// preparesAfter is how many statements make a client one that asks often. If the pool is busy then, it waits for as many more; if a
	// look told nothing, for four times as many in all.
	preparesAfter = 32
	// neverAgain is more than a client asks.
	neverAgain = math.MaxInt64
)

// count notes a statement that would be prepared.
func (p *preparation) count() { p.asked.Add(1) }

// look makes the pre-flight when it is due, in the background.
func (p *preparation) look(s *sessions) {
	asked, next := p.asked.Load(), p.next.Load()
	if p.inBackground == nil || s.pool == nil || asked < max(next, preparesAfter) || !p.next.CompareAndSwap(next, neverAgain) {
		return
	}
	// Two for the look, one for the caller, and one for whoever wants one meanwhile.
	if limits := s.pool.Stats(); limits.MaxOpenConnections > 0 && limits.MaxOpenConnections-limits.InUse < 4 {
		p.next.Store(asked + preparesAfter)
		return
	}
	p.inBackground(func(ctx context.Context) {
		if !p.decide(ctx, s) {
			p.next.Store(4 * asked)
		}
	})
}

// decide reports whether the decision is for good. It fails in silence: what the pre-flight says of a server that hybrid cannot use is no
// fault in table mode.
func (p *preparation) decide(looking context.Context, s *sessions) bool {
	ctx, cancel := context.WithTimeout(looking, callTimeout)
	defer cancel()
	conn, err := s.pool.Conn(ctx)
	if err != nil {
		return false
	}
	prepares := s.canWatch(statements{conn}) // as pgx does, which can wait, too
	_ = conn.Close()
	if prepares {
		return true
	}
	witnessed, err := s.preflight(ctx, looking)
	p.ready.Store(witnessed)
	return witnessed || errors.As(err, new(*UnsupportedError))
}

// moved is called when a statement has met another session than its own, in spite of the pre-flight: the pool leads to a pooler
// now, and a statement's name there to whatever the session of the moment calls so.
func (p *preparation) moved() { p.ready.Store(false) }

// on returns how statements are sent on that connection.
func (p *preparation) on(conn *sql.Conn) statements {
	if p.ready.Load() {
		return statements{preparing{conn, p.moved}}
	}
	return statements{conn}
}
