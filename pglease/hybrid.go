package pglease

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync"
	"time"

	"github.com/pglease/pglease-go/db"
	"github.com/pglease/pglease-go/pglease/internal/key"
)

// hybridBackend holds each lease by a session's advisory lock, on a connection pinned for it, and by its row. What concerns
// the row alone is the table backend's.
type hybridBackend struct {
	*tableBackend
	expectEnd     func(Zombie) (ended func())
	life          context.Context // ends when the client is closed
	sessionCheck  time.Duration
	takeoverDelay *time.Duration // what WithTakeoverDelay said

	mu     sync.Mutex
	held   map[Term]*pinned
	pinned int             // connections that are pinned or reserved now
	freed  chan struct{}   // closed when there are fewer of them
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
		held:          make(map[Term]*pinned),
		freed:         make(chan struct{}),
		looks:         make(map[string]look),
	}
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
	var held *HeldError
	var broke time.Time // when a connection broke, on which the attempt may have been granted
	for stale := h.idle(); ; stale-- {
		var sent bool
		g, waited, sent, err = h.attemptOnce(ctx, r, wait)
		if errors.As(err, &held) && held.Expired() && time.Since(broke) < dying && pause(ctx, 5*time.Millisecond) {
			stale++ // the session of that grant has not let go of its lock yet
			continue
		}
		// The pool may have given out connections that the server has closed long ago; lib/pq says the same of one that ended
		// after the commit.
		if !errors.Is(err, driver.ErrBadConn) || stale < 0 || ctx.Err() != nil {
			break
		}
		if sent && h.keeper != nil {
			broke = time.Now()
			if _, err := h.Withdraw(ctx, r); err != nil {
				break
			}
		}
	}
	if err == nil || errors.As(err, &held) || errors.Is(err, ErrClosed) {
		return g, waited, err
	}
	if statementMoved(err) {
		err = pooled("a statement met another session than the one that had prepared it")
	}
	return g, false, h.fault(ctx, "acquire", err)
}

// attemptOnce makes an attempt on one connection; sent reports that something of it was sent.
func (h *hybridBackend) attemptOnce(ctx context.Context, r Request, wait bool) (g Grant, waited, sent bool, err error) {
	witnessed, err := h.witness(ctx)
	if err != nil {
		return g, false, false, err
	}
	p, err := h.pin(ctx, r)
	if err != nil {
		return g, false, false, err
	}
	if witnessed && p.given == nil && !h.sessions.canWatch(p.statements()) {
		p.prepares = true
	}
	g, waited, err = h.attemptOn(ctx, p, r, wait, witnessed)
	h.settle(p, err)
	if h.keeper != nil && broken(ctx, err) && !errors.Is(err, ErrHeld) {
		h.keeper.noteBroken()
	}
	return g, waited, true, err
}

// witness makes the pre-flight, if that has not been done.
func (h *hybridBackend) witness(ctx context.Context) (witnessed bool, err error) {
	if checked, witnessed := h.sessions.inspected(); checked {
		return witnessed, nil
	}
	looking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if h.keeper != nil { // a given connection may not survive a statement that is cancelled
		defer context.AfterFunc(h.life, cancel)()
	}
	witnessed, err = h.sessions.preflight(ctx, looking)
	if err != nil && h.life.Err() != nil && !errors.As(err, new(*UnsupportedError)) {
		err = ErrClosed
	}
	return witnessed, err
}

func (h *hybridBackend) idle() int {
	if h.keeper == nil {
		return 0
	}
	return h.keeper.pool.Stats().Idle + 2
}

// attemptOn makes an attempt on a pinned connection. Afterwards p.locked tells whether the session may have the lock.
func (h *hybridBackend) attemptOn(ctx context.Context, p *pinned, r Request, wait, witnessed bool) (g Grant, waited bool, err error) {
	p.key = key.Lease(r.Name)
	p.term = Term{Name: r.Name, Owner: r.Owner}
	err = p.use(ctx, attemptTimeout, func(ctx context.Context, s statements) error {
		a := &hybridAttempt{h: h, p: p, s: s, r: r, args: db.AcquireWithSessionParams{
			Name: r.Name, Key: p.key, TTLSeconds: r.TTL.Seconds(), Owner: r.Owner,
			NoticeMS: h.noticeMS(s, witnessed), Metadata: r.metadataColumn(),
		}}
		a.args.KeepalivesIdle, a.args.UserTimeoutMS = silence(r.TTL)
		var err error
		if len(r.Others) > 0 {
			g, err = a.runAny(ctx)
		} else {
			g, waited, err = a.run(ctx, wait)
		}
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
	case h.sessions.canWatch(s):
		return 100
	default:
		return (h.sessionCheck + 100*time.Millisecond).Milliseconds()
	}
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
	err := p.use(ctx, callTimeout, func(ctx context.Context, s statements) (err error) {
		for n := 1; ; n++ {
			sound, cancel, endErr := soundly(ctx)
			if endErr != nil && n == 1 {
				return &unsentError{endErr}
			} else if endErr != nil {
				return endErr
			}
			row, err = ask(sound, s, db.RenewWithSession, db.RenewWithSessionParams{
				Name: r.Term.Name, Owner: r.Term.Owner, Token: r.Term.Token, TTLSeconds: r.TTL.Seconds(),
			}, queries.RenewWithSession)
			cancel()
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
	case errors.As(err, new(*unsentError)) && p.ended.Err() == nil:
		return RenewalResult{State: RenewalLocked, Cause: h.fault(ctx, "renew", err)}
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
