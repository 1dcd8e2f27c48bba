package pglease

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"
)

// How a hybrid backend comes by its connections, and how they go back.

// pin takes a connection for one lease.
func (h *hybridBackend) pin(ctx context.Context, r Request) (*pinned, error) {
	if h.keeper == nil {
		return h.pinGiven(ctx, r)
	}
	limit := h.keeper.pool.Stats().MaxOpenConnections
	h.mu.Lock()
	switch of := r.reserved; {
	case of != nil:
		of.out++
	case limit > 0 && h.pinned >= limit:
		defer h.mu.Unlock()
		if held := h.heldHere(r); held != nil {
			return nil, held
		}
		return nil, allPinned(limit)
	default:
		h.pinned++
	}
	h.mu.Unlock()
	conn, err := h.keeper.sound(ctx)
	if err != nil {
		h.unpinned(r.reserved)
		return nil, &unsentError{fmt.Errorf("%w (%d connections pinned by this client's hybrid leases)", err, h.countPinned())}
	}
	p := newPinned(conn, nil, nil, h.sessionCheck)
	p.reserved = r.reserved
	return p, nil
}

func allPinned(limit int) error {
	return &UnsupportedError{
		fmt.Sprintf("all %d connections of the pool are pinned by hybrid leases", limit),
		"release one, raise SetMaxOpenConns, or use the table backend for leases that are many",
	}
}

// pinGiven takes the caller's connection, which can hold one lease at a time: PostgreSQL would grant the same session the
// same lock twice (P4).
func (h *hybridBackend) pinGiven(ctx context.Context, r Request) (*pinned, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pinned > 0 && r.reserved == nil {
		if held := h.heldHere(r); held != nil {
			return nil, held
		}
		return nil, &UnsupportedError{"the given connection holds a hybrid lease already", "release it, or give the client a *sql.DB"}
	}
	p := newPinned(nil, h.db, h.given, h.sessionCheck)
	if p.reserved = r.reserved; p.reserved != nil {
		p.reserved.out++
	} else {
		h.pinned++
	}
	return p, nil
}

// heldHere is the answer to a request for names that this client holds itself, or nil. It is given where there is no
// connection to ask the database with.
func (h *hybridBackend) heldHere(r Request) (held error) {
	tokens := make(map[string]int64, len(h.held))
	for term := range h.held {
		tokens[term.Name] = term.Token
	}
	for _, name := range r.names() {
		token, ok := tokens[name]
		if !ok {
			return nil
		}
		now := time.Now().UTC()
		held = &HeldError{Info: Info{Name: name, Owner: r.Owner, Token: token, ObservedAt: now, ExpiresAt: now, Mode: ModeHybrid}}
	}
	return held
}

func (h *hybridBackend) countPinned() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pinned
}

// settle decides about the connection of an attempt that ended with err: it stays pinned for a lease, goes back if it is known
// to be clean, or is destroyed.
func (h *hybridBackend) settle(p *pinned, err error) {
	switch {
	case err == nil:
	case p.locked:
		h.destroy(p)
	default:
		h.giveBack(p, err)
	}
}

// giveBack returns a connection that holds no lock and has its settings back. It waits for a statement that is sent on it all the same,
// a renewal's: database/sql crashes if a connection is closed while another goroutine begins to use it.
func (h *hybridBackend) giveBack(p *pinned, err error) {
	if p.left.Swap(true) {
		return
	}
	if p.given != nil { // the next attempt on it need not wait
		h.unpinned(p.reserved)
		select {
		case <-p.turn:
			p.dropWatch()
			p.turn <- struct{}{}
		default:
			go func() {
				<-p.turn
				p.dropWatch()
				p.turn <- struct{}{}
			}()
		}
		return
	}
	select {
	case <-p.turn:
		if p.watching == nil { // as nearly always
			putBack(p.conn, err)
			p.turn <- struct{}{}
			h.unpinned(p.reserved)
			return
		}
		p.turn <- struct{}{}
	default:
	}
	h.part(p, callTimeout+driverGrace, func() { putBack(p.conn, err) })
}

// destroy ends the session: with it go the advisory lock and every doubt (T1). It returns at once.
func (h *hybridBackend) destroy(p *pinned) {
	p.end(errors.New("the connection was given up"))
	h.mu.Lock()
	delete(h.held, p.term)
	h.mu.Unlock()
	if p.left.Swap(true) {
		return // a release may hang on it, and another, or a loss, give it up meanwhile
	}
	// Usually it takes no time, and then nothing is left when the caller returns.
	h.part(p, driverGrace/2, func() {
		if p.given == nil {
			destroy(p.conn)
		} else if raw, ok := p.rawConn(); ok {
			_ = raw.Raw(func(driverConn any) error {
				endSession(driverConn)
				return driver.ErrBadConn
			})
		}
	})
}

// part does f, the last that is done with a connection, when nobody uses it any more. It waits for that, but not for longer than d; a driver
// that hangs on the connection is reported until it lets go.
func (h *hybridBackend) part(p *pinned, d time.Duration, f func()) {
	ended := h.expectEnd(Zombie{Name: p.term.Name, Token: p.term.Token, Kind: ZombieCall, Since: time.Now()})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer ended()
		defer h.unpinned(p.reserved)
		<-p.turn
		_ = p.stopWatching(context.Background())
		f()
		p.turn <- struct{}{}
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-gone:
	case <-timer.C:
	}
}

// stepAside takes the watch from the given connection while another statement is sent on it.
func (h *hybridBackend) stepAside(ctx context.Context) (resume func(), err error) {
	h.mu.Lock()
	var p *pinned
	for _, p = range h.held { // one at the most
	}
	h.mu.Unlock()
	if p == nil || p.watching == nil {
		return func() {}, nil
	}
	if err := p.stopWatching(ctx); err != nil {
		go p.watchAgain(p.watching)
		return nil, err
	}
	return func() {
		if p.ended.Err() == nil && !p.left.Load() && h.holding(p.term) == p {
			p.startWatching()
		}
	}, nil
}

// givenConns are the *sql.Conn that hybrid clients of this process have been given: two clients on one could both be granted
// a lease, because they are one session (P4).
var givenConns sync.Map

var errGivenTwice = &UnsupportedError{"another hybrid client uses this *sql.Conn", "give each client a connection of its own, or a *sql.DB"}
