package pglease

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/pglease/pglease-go/db"
)

// How a hybrid lease ends.

func (h *hybridBackend) Release(ctx context.Context, term Term, minHold time.Duration) error {
	p := h.holding(term)
	if p == nil && h.keeper != nil { // a release before this one was cut off, and has cost the session; the row may still be there
		return h.tableBackend.Release(ctx, term, minHold)
	} else if p == nil {
		return ErrLost
	}
	begun := time.Now()
	var row db.ReleaseWithSessionRow
	over := false     // before
	unlocked := false // perhaps, by a try whose write did not last
	err := p.use(ctx, 2*callTimeout, func(ctx context.Context, s statements) (err error) {
		for n := 1; ; n++ {
			sound, cancel, endErr := soundly(ctx)
			if endErr != nil {
				return endErr
			}
			row, err = ask(sound, s, db.ReleaseWithSession, db.ReleaseWithSessionParams{
				MinHoldSeconds: minHold.Seconds(), Name: term.Name, Owner: term.Owner, Token: term.Token, Key: p.key, Settings: p.settings,
			}, queries.ReleaseWithSession)
			cancel()
			if over = errors.Is(err, sql.ErrNoRows); over {
				return h.unlockOver(ctx, s, p, unlocked)
			}
			if err == nil {
				break
			}
			// Somebody looks at the row, as Python does; the lock is given up only after it was had.
			if stateOf(err) == stateLockNotAvailable && ctx.Err() == nil && time.Since(begun) < callTimeout {
				continue
			}
			if !again(ctx, n, err) {
				break
			}
			unlocked = true
		}
		if err != nil || h.given == nil {
			return err
		}
		return h.notInTransaction(ctx, s)
	}, false)
	if err == nil && !over && (!row.Unlocked && !unlocked || row.PID != p.pid) {
		err = errLockElsewhere
	}
	switch {
	case err == nil:
	case over && !errors.Is(err, errLockElsewhere):
		h.destroy(p) // and with it what could not be unlocked
		return ErrLost
	default:
		lost := broken(ctx, err)
		h.destroy(p)
		if lost && h.keeper != nil {
			return h.releaseRow(ctx, term, minHold, err)
		}
		return h.fault(ctx, "release", err)
	}
	h.mu.Lock()
	delete(h.held, term)
	h.mu.Unlock()
	if over || row.Unmarked || !row.Unlocked { // the mark went with the lock, perhaps by a try before
		h.giveBack(p, nil)
	} else { // another table has the rows now, and the mark is the old one's
		h.destroy(p)
	}
	p.end(nil)
	if over {
		return ErrLost
	}
	if minHold == 0 {
		h.beliefs.free(term.Name)
	}
	return nil
}

// errLockElsewhere is what a release finds out of a pooler.
var errLockElsewhere = pooled("the lock was not in the session that should have had it")

// unlockOver gives up the lock of a term that was over when it was to be released, if that has not been done.
func (h *hybridBackend) unlockOver(ctx context.Context, s statements, p *pinned, done bool) error {
	sound, cancel, err := soundly(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	row, err := queries.UnlockKey(sound, s, db.UnlockKeyParams{Key: p.key, Settings: p.settings})
	switch {
	case err != nil:
		return err
	case !row.Unlocked && !done:
		return errLockElsewhere
	case !row.Unmarked:
		return errors.New("the table has been replaced under the lease")
	}
	return nil
}

// releaseRow ends a term whose session broke, with its lock, while the release was sent on it (failure): whether the row was
// released is not known.
func (h *hybridBackend) releaseRow(ctx context.Context, term Term, minHold time.Duration, failure error) error {
	ctx, cancel := limit(ctx, callTimeout) // the wait for a connection, too
	defer cancel()
	err := h.tableBackend.Release(ctx, term, minHold)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, ErrLost):
		return h.fault(ctx, "release", failure)
	}
	return h.released(ctx, term, failure)
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
