package pglease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/pglease/pglease-go/db"
	"github.com/pglease/pglease-go/pglease/internal/backoff"
	"github.com/pglease/pglease-go/pglease/internal/redact"
)

// tableBackend keeps leases in the table pglease_leases alone. Each step is one statement in autocommit, so it works
// through any pooler.
type tableBackend struct {
	db     DB
	keeper *keeper       // nil if db has no pool to lend from
	given  chan struct{} // holds a token while nobody uses the caller's *sql.Conn; nil if db is something else
	redact *redact.Redactor
	log    *zap.Logger

	beliefs  beliefs
	sessions *sessions
	prepares preparation

	// stepAside, if not nil, is called by whoever has taken the given connection, and what it returns before giving it back.
	stepAside func(context.Context) (resume func(), err error)
}

func newTableBackend(d DB, r *redact.Redactor, log *zap.Logger) *tableBackend {
	t := &tableBackend{db: d, redact: r, log: log}
	if p, ok := d.(pool); ok {
		t.keeper = &keeper{pool: p, terms: make(map[Term]struct{})}
		t.sessions = newSessions(p, nil, nil)
		return t
	}
	if _, ok := d.(session); ok {
		t.given = make(chan struct{}, 1)
		t.given <- struct{}{}
	}
	t.sessions = newSessions(nil, d, t.given)
	return t
}

func (t *tableBackend) direct() statements { return statements{t.db} }

// run sends the statements of f: on a lent connection, if preferKept on the kept one; or alone on the given one. Waiting
// for a connection is bounded by ctx alone, the statements by callTimeout too.
func (t *tableBackend) run(ctx context.Context, preferKept bool, f func(context.Context, statements) error) error {
	return t.runFor(ctx, callTimeout, preferKept, f)
}

func (t *tableBackend) runFor(ctx context.Context, d time.Duration, preferKept bool, f func(context.Context, statements) error) error {
	timed := func(s statements) error {
		ctx, cancel := limit(ctx, d)
		defer cancel()
		return f(ctx, s)
	}
	switch {
	case t.keeper != nil:
		return t.keeper.run(ctx, preferKept, func(conn *sql.Conn) error { return timed(t.prepares.on(conn)) })
	case t.given != nil:
		waiting, stop := limit(ctx, attemptTimeout) // whoever has it may have been given up, in a driver that hangs
		defer stop()
		select {
		case <-t.given:
		case <-waiting.Done():
			return &unsentError{waiting.Err()}
		}
		defer func() { t.given <- struct{}{} }()
		if t.stepAside != nil {
			resume, err := t.stepAside(waiting)
			if err != nil {
				return &unsentError{err}
			}
			defer resume()
		}
		stop()
		// A driver destroys the session in which a context ends a statement, and a given one is the only one there is: the
		// caller is told at the end of ctx (call sees to that), the statement ends by itself or by its own timeout.
		ctx = context.WithoutCancel(ctx)
	}
	return timed(t.direct())
}

// tries is how often a statement is sent that fails with 40001 or 40P01, which the default isolation of a database can
// cause at any time (D3), or that must be asked again for another harmless reason.
const tries = 10

var errAskAgain = errors.New("the row was created or deleted in the meantime")

// again reports whether the nth try that failed with err should be followed by another, after a jittered pause.
func again(ctx context.Context, n int, err error) bool {
	switch stateOf(err) {
	case stateSerialization, stateDeadlock:
	case statePlanChanged: // pgx has forgotten the plan by now (D4)
		return n == 1
	default:
		if !errors.Is(err, errAskAgain) {
			return false
		}
	}
	if n >= tries {
		return false
	}
	pause := time.NewTimer(backoff.Exponential(n, 2*time.Millisecond, 100*time.Millisecond))
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *tableBackend) Acquire(ctx context.Context, r Request) (Grant, error) {
	args := db.AcquireLeaseParams{
		TTLSeconds: r.TTL.Seconds(), Name: r.Name, Owner: r.Owner, Metadata: r.metadataColumn(),
	}
	t.prepares.look(t.sessions)
	return t.acquire(ctx, r, func(ctx context.Context, s statements) (db.AcquireAnyLeaseRow, error) {
		return t.askFor(ctx, s, args)
	})
}

// acquireAny makes one attempt to begin a term under any of the names of r.
func (t *tableBackend) acquireAny(ctx context.Context, r Request) (Grant, error) {
	list, err := json.Marshal(r.names())
	if err != nil {
		return Grant{}, newBackendError("acquire", err, t.redact)
	}
	args := db.AcquireAnyLeaseParams{
		TTLSeconds: r.TTL.Seconds(), Names: string(list), Owner: r.Owner, Metadata: r.metadataColumn(),
	}
	var failed error
	return t.acquire(ctx, r, func(ctx context.Context, s statements) (row db.AcquireAnyLeaseRow, err error) {
		if failed != nil { // lib/pq says ErrBadConn after a commit, too: the next statement would get a second name
			if _, err := queries.WithdrawLease(ctx, s, r.withdrawal(list)); err != nil {
				return row, err
			}
		}
		row, err = queries.AcquireAnyLease(ctx, s, args)
		if broken(ctx, err) || errors.Is(err, driver.ErrBadConn) {
			failed = err
		}
		if args.NewFirst = errors.Is(err, sql.ErrNoRows); args.NewFirst && t.given != nil {
			// In an open transaction a statement before may have made a row, and none is made after it.
			if err := t.notInTransaction(ctx, s); err != nil {
				return row, err
			}
		}
		return row, err
	})
}

// acquire sends an attempt until its answer is definite.
func (t *tableBackend) acquire(ctx context.Context, r Request, send func(context.Context, statements) (db.AcquireAnyLeaseRow, error)) (Grant, error) {
	var first, start time.Time // of the first statement that was sent, and the last
	var row db.AcquireAnyLeaseRow
	var term Term
	for n := 1; ; n++ {
		err := t.run(ctx, false, func(ctx context.Context, s statements) (err error) {
			start = time.Now()
			if first.IsZero() {
				first = start
			}
			row, err = send(ctx, s)
			if err != nil || !row.Granted {
				return err
			}
			term = Term{row.TaskName, r.Owner, row.Token}
			if err := t.committed(ctx, s, row.XID, term); err != nil {
				return err
			}
			if t.keeper != nil {
				t.keeper.began(term)
			}
			return nil
		})
		if errors.Is(err, sql.ErrNoRows) {
			err = errAskAgain
		}
		if err == nil {
			break
		}
		if !again(ctx, n, err) {
			return Grant{}, t.fault(ctx, "acquire", err)
		}
	}
	if !row.Granted && row.OwnerID == r.Owner && attemptOf(row.Metadata) == r.Attempt {
		// It was granted when this attempt was sent before, on a connection that broke: lib/pq calls that ErrBadConn, too.
		row.Granted, start = true, first
		term = Term{row.TaskName, r.Owner, row.Token}
		if t.keeper != nil {
			t.keeper.began(term)
		}
	}
	if !row.Granted {
		return Grant{}, &HeldError{Info: t.infoOfHeld(db.GetLeaseRow{
			TaskName: row.TaskName, OwnerID: row.OwnerID, AcquiredAt: row.AcquiredAt, ExpiresAt: row.ExpiresAt, HeartbeatAt: row.HeartbeatAt,
			Token: row.Token, Session: row.Session, Metadata: row.Metadata, ObservedAt: row.ObservedAt,
		}, start)}
	}
	t.beliefs.forget(term.Name)
	return Grant{Term: term, AcquiredAt: row.AcquiredAt.UTC(), ExpiresAt: row.ExpiresAt.UTC(), Start: start}, nil
}

// infoOfHeld is infoOf the row that an attempt, sent at start, has found in its way.
func (t *tableBackend) infoOfHeld(row db.GetLeaseRow, start time.Time) Info {
	return infoOfSaid(row, t.beliefs.held(row, start.Add(row.ExpiresAt.Sub(row.ObservedAt))))
}

// notInTransaction returns an error if the caller has a transaction open on the given connection that has written something, or if it
// is not known.
func (t *tableBackend) notInTransaction(ctx context.Context, s statements) error {
	open, err := queries.TransactionOpen(ctx, s)
	if err == nil && open {
		err = openTransaction
	}
	return err
}

// committed returns nil if the write with that transaction id is known to be committed. On a connection of the caller's
// that is worth a second look: a transaction may be open there, whose rollback would take the write back (P11). A grant
// inside one is given back at once, in case it is committed.
func (t *tableBackend) committed(ctx context.Context, s statements, xid string, granted Term) error {
	if t.given == nil || xid == "" {
		return nil
	}
	status, err := queries.TransactionStatus(ctx, s, xid)
	if err != nil || status == "committed" {
		return err
	}
	if granted.Token != 0 {
		_, _ = queries.ReleaseLease(ctx, s, db.ReleaseLeaseParams{Name: granted.Name, Owner: granted.Owner, Token: granted.Token})
	}
	return openTransaction
}

// withdrawal is what takes back a grant of r, under any of the names of the list.
func (r Request) withdrawal(list []byte) db.WithdrawLeaseParams {
	return db.WithdrawLeaseParams{Names: string(list), Owner: r.Owner, Attempt: strconv.FormatInt(r.Attempt, 10)}
}

func (t *tableBackend) Withdraw(ctx context.Context, r Request) (bool, error) {
	names, err := json.Marshal(r.names())
	if err != nil {
		return false, newBackendError("withdraw", err, t.redact)
	}
	var n int64
	err = t.run(ctx, true, func(ctx context.Context, s statements) (err error) {
		n, err = queries.WithdrawLease(ctx, s, r.withdrawal(names))
		return err
	})
	return n > 0, t.fault(ctx, "withdraw", err)
}

func (t *tableBackend) Forget(term Term) {
	if t.keeper != nil {
		t.keeper.ended(term)
	}
}

func (t *tableBackend) Check(ctx context.Context, tx *sql.Tx, term Term) error {
	query, args := t.CheckQuery(term)
	var current bool
	if err := tx.QueryRowContext(ctx, query, args...).Scan(&current); err != nil {
		return t.fault(ctx, "check", err)
	}
	if !current {
		return ErrLost
	}
	return nil
}

func (t *tableBackend) CheckQuery(term Term) (string, []any) {
	return db.CheckTerm, []any{term.Owner, term.Token, term.Name}
}

func (t *tableBackend) Close(context.Context) error { return nil }

var _ Backend = (*tableBackend)(nil)
