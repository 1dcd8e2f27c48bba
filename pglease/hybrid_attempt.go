package pglease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/pglease/pglease-go/db"
)

const (
	// slice is how long one statement waits for an advisory lock at the most: a waiting session holds back the oldest
	// snapshot of the whole server (section "Waiting" of the design; PostgreSQL manual, routine vacuuming).
	slice = 5 * time.Second
	// attemptTimeout bounds an attempt on one connection: a slice, and the statements around it.
	attemptTimeout = slice + 2*callTimeout
	// secondLook is how long after the first look a holder must still have the lock of an expired row to be ended, if the row
	// does not name its session.
	secondLook = 5 * time.Second
	// lingering is for how long the server may list a session that has given up its locks already.
	lingering = 100 * time.Millisecond
	// dying is how long a try waits at the most for a session that it has ended to let go of the lock.
	dying = 500 * time.Millisecond
	// patientRow is how long an attempt waits for a locked row if the lock was handed to it: the last holder's commit follows
	// its unlock. hastyRow, if it was free: then a locked row is as good as a held one.
	patientRow = 2 * time.Second
	hastyRow   = 100 * time.Millisecond
	// rowSlack is how long after the end of a term a waiter looks again.
	rowSlack = 10 * time.Millisecond
)

// A hybridAttempt is one attempt on one pinned connection. It runs while it has the connection's turn.
type hybridAttempt struct {
	h    *hybridBackend
	p    *pinned
	s    statements
	r    Request
	args db.AcquireWithSessionParams

	row    db.AcquireWithSessionRow
	start  time.Time // of the last statement
	guess  guess     // how the first statement may be made cheaper
	any    bool      // the first statement is for any of several names, or what is left of them
	won    bool      // and it has won the lock of one
	handed bool      // the lock was waited for, and whoever had it may still have the row for a moment
}

// run tries, and if wait is set waits a slice for the advisory lock. Whenever it returns, p.locked tells whether the session
// may have the lock without a lease: any error leaves that open, unless the lock was given back and that was verified.
func (a *hybridAttempt) run(ctx context.Context, wait bool) (Grant, bool, error) {
	if err := a.begin(ctx, wait); err != nil {
		return Grant{}, false, err
	}
	waited := false
	if a.row.State == "busy" {
		note, ended, err := a.h.hunt(ctx, a)
		if err != nil {
			return Grant{}, false, err
		}
		most := slice
		if !wait {
			if !ended {
				return Grant{}, false, a.held(note)
			}
			most = dying
		}
		locked, err := a.waitForKey(ctx, most)
		if err != nil {
			return Grant{}, false, err
		}
		if !locked {
			return Grant{}, true, a.held(note)
		}
		waited, a.handed = true, true
		if err := a.send(ctx, true, false); err != nil {
			return Grant{}, false, err
		}
	}
	if a.row.State == "suspect" {
		if err := a.takeEarly(ctx); err != nil {
			return Grant{}, false, err
		}
	}
	switch a.row.State {
	case "free":
		return a.granted(ctx)
	case "pooled":
		_ = a.unlock(ctx)
		return Grant{}, false, pooled("the session that the row names is this very one")
	default:
		// Somebody has the row until it expires: the lock is not to look like a lease meanwhile (H9).
		if err := a.unlock(ctx); err != nil {
			return Grant{}, false, err
		}
		return Grant{}, waited && a.row.State == "alive", a.held("")
	}
}

// begin sends the first statement, the one that suits what is believed.
func (a *hybridAttempt) begin(ctx context.Context, wait bool) error {
	if a.any {
		return a.choose(ctx)
	}
	if free, held := a.h.beliefs.get(a.r.Name); free {
		a.guess = guessFree
	} else if held && !wait {
		a.guess = guessHeld
	}
	return a.send(ctx, false, false)
}

// send sends the attempt's statement until it says something definite.
func (a *hybridAttempt) send(ctx context.Context, haveLock, early bool) error {
	for n := 1; ; n++ {
		a.args.HaveLock, a.args.Early = haveLock, early
		rowWait := hastyRow
		if a.handed {
			rowWait = patientRow
		}
		a.args.RowWaitMS = rowWait.Milliseconds()
		sound, cancel, err := soundly(ctx)
		if err != nil {
			return err
		}
		a.p.locked = true // until it is known that it is not
		a.start = time.Now()
		row, definite, err := a.ask(sound)
		cancel()
		if err == nil {
			a.row = row
			a.p.pid = row.PID
			a.p.locked = row.State != "busy"
			if a.p.locked && a.p.settings == "" {
				a.p.settings = restorable(row.OldSettings)
			}
			if definite {
				return nil
			}
			haveLock = a.p.locked
			if a.guess != guessNothing {
				a.guess = guessNothing
				continue
			}
			err = errAskAgain
		} else if errors.Is(err, driver.ErrBadConn) {
			a.p.locked = false // there is no session any more
			return err
		} else if stateOf(err) == stateLockNotAvailable && ctx.Err() == nil {
			if endErr := a.rowLocked(ctx); endErr != nil {
				return endErr
			}
			haveLock = false
			if again(ctx, n, errAskAgain) {
				continue
			}
		}
		if !again(ctx, n, err) {
			return err
		}
		if !haveLock {
			if err := a.unlock(ctx); err != nil {
				return err
			}
		}
	}
}

// rowLocked gives the lock back, and makes the answer to an attempt for which somebody kept the row locked for all of
// lock_timeout: it is held, as by a transaction that passed CheckTx. Without a row the answer is nil: it is an INSERT that is not
// committed yet, or a table that grows, and worth asking again.
func (a *hybridAttempt) rowLocked(ctx context.Context) error {
	if err := a.unlock(ctx); err != nil {
		return err
	}
	row, err := queries.GetLease(ctx, a.s, a.r.Name)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return &HeldError{Info: infoOf(row)}
}

// takeEarly waits for the bound of notice that the suspected holder wrote into its row, and asks again, now with a look at the
// server's list of sessions; a session that has just ended may linger there.
func (a *hybridAttempt) takeEarly(ctx context.Context) error {
	e := decodeEvidence(a.row.Session)
	wait := e.notice()
	if !e.counts(a.asRow()) || wait < 0 || wait >= a.row.ExpiresAt.Sub(a.row.ObservedAt) { // of a later version, perhaps; or too late to gain by it
		a.row.State = "held"
		return nil
	}
	for deadline := time.Now().Add(wait + lingering); ; wait = 5 * time.Millisecond {
		if !pause(ctx, wait) {
			return ctx.Err()
		}
		if err := a.send(ctx, true, true); err != nil {
			return err
		}
		if a.row.State != "alive" || time.Now().After(deadline) {
			return nil
		}
	}
}

// waitForKey waits for the lock, for most at the most, and reports false if the slice ended. A server that ends statements sooner than a slice ends
// this one too.
func (a *hybridAttempt) waitForKey(ctx context.Context, most time.Duration) (locked bool, err error) {
	length := most
	if left := a.row.ExpiresAt.Sub(a.row.ObservedAt); left > 0 {
		length = min(length, left+rowSlack)
	} else if a.h.hunting(a.r.Name) {
		length = min(length, secondLook/5)
	}
	a.p.locked = true
	err = queries.WaitForKey(ctx, a.s, db.WaitForKeyParams{Key: a.p.key, SliceMS: fmt.Sprint(max(1, length.Milliseconds()))})
	switch state := stateOf(err); {
	case err == nil:
		return true, nil
	case ctx.Err() == nil && (state == stateLockNotAvailable || state == stateQueryCanceled):
		return false, a.unlock(ctx)
	default:
		return false, err
	}
}

// unlock gives the lock back if the session has it, and restores its settings.
func (a *hybridAttempt) unlock(ctx context.Context) error {
	sound, cancel, err := soundly(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	row, err := queries.UnlockKey(sound, a.s, db.UnlockKeyParams{Key: a.p.key, Settings: a.p.settings})
	if err != nil {
		return err
	}
	a.p.locked, a.p.settings = !row.Unmarked, ""
	return nil
}

func (a *hybridAttempt) asRow() db.GetLeaseRow {
	return db.GetLeaseRow{
		TaskName: a.r.Name, OwnerID: a.row.OwnerID, AcquiredAt: a.row.AcquiredAt, ExpiresAt: a.row.ExpiresAt, HeartbeatAt: a.row.HeartbeatAt,
		Token: a.row.Token, Session: a.row.Session, Metadata: a.row.Metadata, ObservedAt: a.row.ObservedAt,
	}
}

func (a *hybridAttempt) held(note string) *HeldError {
	return &HeldError{Info: a.h.infoOfHeld(a.asRow(), a.start), note: note}
}

// granted makes sure of the grant, and keeps the connection pinned for it.
func (a *hybridAttempt) granted(ctx context.Context) (Grant, bool, error) {
	term := Term{a.r.Name, a.r.Owner, a.row.Token}
	if err := a.h.committed(ctx, a.s, a.row.XID, term); err != nil {
		_ = a.unlock(ctx)
		return Grant{}, false, err
	}
	a.h.enter(a.p, term)
	a.h.beliefs.forget(a.r.Name)
	return Grant{
		Term:       term,
		AcquiredAt: a.row.AcquiredAt.UTC(),
		ExpiresAt:  a.row.ExpiresAt.UTC(),
		Start:      a.start,
		Session:    a.p.ended,
	}, false, nil
}
