package pglease

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/pglease/pglease-go/db"
	"github.com/pglease/pglease-go/pglease/internal/key"
)

// hybridBackend holds each lease by a session's advisory lock, on a connection pinned for it, and by its row. What concerns
// the row alone is the table backend's.
type hybridBackend struct {
	*tableBackend
	log           *zap.Logger
	expectEnd     func(Zombie) (ended func())
	sessionCheck  time.Duration
	takeoverDelay *time.Duration // what WithTakeoverDelay said

	checking  chan struct{} // holds a token while nobody is at the pre-flight
	checked   bool          // guarded by checking
	witnessed bool

	watchable sync.Once
	canWait   bool

	mu     sync.Mutex
	held   map[Term]*pinned
	pinned int             // connections of the pool that are pinned now
	looks  map[string]look // at holders that seem to hang, by name
}

func newHybridBackend(t *tableBackend, o clientOptions) (*hybridBackend, error) {
	switch {
	case t.given != nil:
		if _, twice := givenConns.LoadOrStore(t.db, true); twice {
			return nil, errGivenTwice
		}
	case t.keeper == nil:
		return nil, &UnsupportedError{"the database has no method Conn to pin a connection with", "give the client a *sql.DB or a *sql.Conn, or use the table backend"}
	}
	h := &hybridBackend{
		tableBackend:  t,
		sessionCheck:  o.sessionCheck,
		takeoverDelay: o.takeoverDelay,
		checking:      make(chan struct{}, 1),
		held:          make(map[Term]*pinned),
		looks:         make(map[string]look),
	}
	h.checking <- struct{}{}
	if t.keeper != nil {
		t.keeper.pinned = h.countPinned
	}
	t.stepAside = h.stepAside
	return h, nil
}

func (h *hybridBackend) Acquire(ctx context.Context, r Request) (Grant, error) {
	g, _, err := h.attempt(ctx, r, false)
	return g, err
}

// acquireWaiting makes an attempt, and waits for the advisory lock for a slice if another session has it. waited reports
// that there is no need to pause before the next attempt.
func (h *hybridBackend) acquireWaiting(ctx context.Context, r Request) (g Grant, waited bool, err error) {
	return h.attempt(ctx, r, true)
}

func (h *hybridBackend) attempt(ctx context.Context, r Request, wait bool) (g Grant, waited bool, err error) {
	var p *pinned
	for stale := h.idle(); ; stale-- {
		var witnessed bool
		if witnessed, err = h.preflight(ctx); err == nil {
			if p, err = h.pin(ctx, r); err == nil {
				g, waited, err = h.attemptOn(ctx, p, r, wait, witnessed)
				h.settle(p, err)
			}
		}
		// The pool may have given out connections that the server has closed long ago.
		if !errors.Is(err, driver.ErrBadConn) || stale < 0 || ctx.Err() != nil {
			break
		}
	}
	var held *HeldError
	if err == nil || errors.As(err, &held) {
		return g, waited, err
	}
	return g, false, h.fault(ctx, "acquire", err)
}

func (h *hybridBackend) idle() int {
	if h.keeper == nil {
		return 0
	}
	return h.keeper.pool.Stats().Idle + 2
}

// pin takes a connection for one lease.
func (h *hybridBackend) pin(ctx context.Context, r Request) (*pinned, error) {
	if h.keeper == nil {
		return h.pinGiven(ctx, r)
	}
	limit := h.keeper.pool.Stats().MaxOpenConnections
	h.mu.Lock()
	if limit > 0 && h.pinned >= limit {
		defer h.mu.Unlock()
		if held := h.heldHere(r); held != nil {
			return nil, held
		}
		return nil, allPinned(limit)
	}
	h.pinned++
	h.mu.Unlock()
	conn, err := h.keeper.pool.Conn(ctx)
	if err != nil {
		h.unpinned()
		return nil, &unsentError{fmt.Errorf("%w (%d connections pinned by this client's hybrid leases)", err, h.countPinned())}
	}
	return newPinned(conn, nil, nil, h.sessionCheck), nil
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
	if h.pinned > 0 {
		if held := h.heldHere(r); held != nil {
			return nil, held
		}
		return nil, &UnsupportedError{"the given connection holds a hybrid lease already", "release it, or give the client a *sql.DB"}
	}
	h.pinned++
	return newPinned(nil, h.db, h.given, h.sessionCheck), nil
}

// heldHere is the answer to a request for a name that this client holds itself, or nil. It is given where there is no
// connection to ask the database with.
func (h *hybridBackend) heldHere(r Request) error {
	for term := range h.held {
		if term.Name == r.Name {
			now := time.Now().UTC()
			return &HeldError{Info: Info{Name: r.Name, Owner: r.Owner, Token: term.Token, ObservedAt: now, ExpiresAt: now, Mode: ModeHybrid}}
		}
	}
	return nil
}

func (h *hybridBackend) unpinned() {
	h.mu.Lock()
	h.pinned--
	h.mu.Unlock()
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

// giveBack returns a connection that holds no lock and has its settings back.
func (h *hybridBackend) giveBack(p *pinned, err error) {
	h.unpinned()
	if p.given == nil {
		putBack(p.conn, err)
	}
}

// destroy ends the session: with it go the advisory lock and every doubt (T1). It returns at once; a driver that hangs on the
// connection is reported until it lets go.
func (h *hybridBackend) destroy(p *pinned) {
	p.end(errors.New("the connection was given up"))
	h.mu.Lock()
	delete(h.held, p.term)
	h.mu.Unlock()
	ended := h.expectEnd(Zombie{Name: p.term.Name, Token: p.term.Token, Kind: ZombieCall, Since: time.Now()})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer ended()
		defer h.unpinned()
		<-p.turn
		_ = p.stopWatching(context.Background())
		if p.given == nil {
			destroy(p.conn)
		} else if raw, ok := p.rawConn(); ok {
			_ = raw.Raw(func(any) error { return driver.ErrBadConn })
		}
		p.turn <- struct{}{}
	}()
	// Usually it takes no time, and then nothing is left when the caller returns.
	select {
	case <-gone:
	case <-time.After(driverGrace / 2):
	}
}

// attemptOn makes an attempt on a pinned connection. Afterwards p.locked tells whether the session may have the lock.
func (h *hybridBackend) attemptOn(ctx context.Context, p *pinned, r Request, wait, witnessed bool) (g Grant, waited bool, err error) {
	p.key = key.Lease(r.Name)
	p.term = Term{Name: r.Name, Owner: r.Owner}
	err = p.use(ctx, func(ctx context.Context, s statements) error {
		a := &hybridAttempt{h: h, p: p, s: s, r: r, args: db.AcquireWithSessionParams{
			Name: r.Name, Key: p.key, Settings: sessionSettings(r.TTL), TTLSeconds: r.TTL.Seconds(), Owner: r.Owner,
			NoticeMS: h.noticeMS(s, witnessed), Metadata: encodeMetadata(r.Metadata, r.Attempt),
		}}
		var err error
		g, waited, err = a.run(ctx, wait)
		return err
	}, true)
	return g, waited, err
}

// noticeMS is what a holder promises about how soon it hears of its session's end, or -1 if it is to write no evidence.
func (h *hybridBackend) noticeMS(s statements, witnessed bool) int64 {
	switch {
	case !witnessed:
		return -1
	case h.takeoverDelay != nil:
		return h.takeoverDelay.Milliseconds()
	case h.canWatch(s):
		return 100
	default:
		return (h.sessionCheck + 100*time.Millisecond).Milliseconds()
	}
}

// canWatch reports whether the driver can wait for the server. All connections of a pool are of one kind.
func (h *hybridBackend) canWatch(s statements) bool {
	h.watchable.Do(func() {
		if raw, ok := s.DB.(session); ok {
			_ = raw.Raw(func(driverConn any) error {
				h.canWait = notificationWait(driverConn) != nil
				return nil
			})
		}
	})
	return h.canWait
}

// look is what a waiter saw of a holder that seems to hang.
type look struct {
	pid       int32
	startedUS int64
	token     int64
	at        time.Time
}

// enter records a term that was granted on p, which stays pinned.
func (h *hybridBackend) enter(p *pinned, term Term) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.term = term
	h.held[term] = p
	delete(h.looks, term.Name)
}

func (h *hybridBackend) holding(t Term) *pinned {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held[t]
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
	return func() {
		if p.ended.Err() == nil && h.holding(p.term) == p {
			p.startWatching()
		}
	}, p.stopWatching(ctx)
}

// Renew sends one heartbeat for each lease, over its own connection, all at the same time: one that hangs is that one's loss
// alone.
func (h *hybridBackend) Renew(ctx context.Context, rs []Renewal) ([]RenewalResult, error) {
	type answer struct {
		i int
		RenewalResult
	}
	answers := make(chan answer, len(rs))
	begun := time.Now()
	for i, r := range rs {
		go func() { answers <- answer{i, h.renewOne(ctx, r)} }()
	}
	results := make([]RenewalResult, len(rs))
	answered := make([]bool, len(rs))
	var late <-chan time.Time
	done := ctx.Done()
	for n := 0; n < len(rs); {
		select {
		case a := <-answers:
			results[a.i], answered[a.i] = a.RenewalResult, true
			n++
		case <-done:
			done, late = nil, time.After(driverGrace/2)
		case <-late:
			open := make(map[int]func())
			for i, r := range rs {
				if !answered[i] {
					open[i] = h.expectEnd(Zombie{Name: r.Term.Name, Token: r.Term.Token, Kind: ZombieHeartbeat, Since: begun})
					results[i] = RenewalResult{State: RenewalSessionEnded, Cause: newBackendError("renew", ctx.Err(), h.redact)}
				}
			}
			go func() {
				for range open {
					open[(<-answers).i]()
				}
			}()
			return results, nil
		}
	}
	return results, nil
}

func (h *hybridBackend) renewOne(ctx context.Context, r Renewal) RenewalResult {
	p := h.holding(r.Term)
	if p == nil {
		return RenewalResult{State: RenewalGone}
	}
	var row db.RenewWithSessionRow
	var notCommitted error
	err := p.use(ctx, func(ctx context.Context, s statements) (err error) {
		for n := 1; ; n++ {
			row, err = queries.RenewWithSession(ctx, s, db.RenewWithSessionParams{
				Name: r.Term.Name, Owner: r.Term.Owner, Token: r.Term.Token, TTLSeconds: r.TTL.Seconds(),
			})
			if err == nil || !again(ctx, n, err) {
				break
			}
		}
		if err != nil || !row.Renewed {
			return err
		}
		notCommitted = h.committed(ctx, s, row.XID, Term{})
		return nil
	}, true)
	switch {
	case err != nil:
		return RenewalResult{State: RenewalSessionEnded, Cause: h.fault(ctx, "renew", err)}
	case row.PID != p.pid:
		return RenewalResult{State: RenewalSessionEnded, Cause: pooled("the lease's connection changed its session")}
	case notCommitted != nil:
		return RenewalResult{State: RenewalLocked, Cause: h.fault(ctx, "renew", notCommitted)}
	case row.Renewed:
		return RenewalResult{State: RenewalDone, ExpiresAt: row.ExpiresAt.UTC()}
	case row.Current:
		return RenewalResult{State: RenewalLocked}
	default:
		return RenewalResult{State: RenewalGone}
	}
}

func (h *hybridBackend) Release(ctx context.Context, term Term, minHold time.Duration) error {
	p := h.holding(term)
	if p == nil {
		return ErrLost
	}
	var row db.ReleaseWithSessionRow
	err := p.use(ctx, func(ctx context.Context, s statements) (err error) {
		row, err = queries.ReleaseWithSession(ctx, s, db.ReleaseWithSessionParams{
			MinHoldSeconds: minHold.Seconds(), Name: term.Name, Owner: term.Owner, Token: term.Token, Key: p.key, Settings: p.settings,
		})
		if err != nil || h.given == nil || row.Released == 0 {
			return err
		}
		if open, err := queries.TransactionOpen(ctx, s); err != nil || open {
			return errors.Join(err, openTransaction)
		}
		return nil
	}, false)
	if err == nil && (!row.Unlocked || row.PID != p.pid) {
		err = pooled("the lock was not in the session that should have had it")
	}
	if err != nil {
		h.destroy(p)
		return h.fault(ctx, "release", err)
	}
	h.mu.Lock()
	delete(h.held, term)
	h.mu.Unlock()
	h.giveBack(p, nil)
	p.end(nil)
	if row.Released == 0 {
		return ErrLost
	}
	return nil
}

// Forget destroys the connection of a lost term.
func (h *hybridBackend) Forget(t Term) {
	if p := h.holding(t); p != nil {
		go h.destroy(p)
	}
}

func (h *hybridBackend) Close(ctx context.Context) error {
	if h.given != nil {
		givenConns.Delete(h.db)
	}
	return h.tableBackend.Close(ctx)
}

// givenConns are the *sql.Conn that hybrid clients of this process have been given: two clients on one could both be granted
// a lease, because they are one session (P4).
var givenConns sync.Map

var errGivenTwice = &UnsupportedError{"another hybrid client uses this *sql.Conn", "give each client a connection of its own, or a *sql.DB"}
