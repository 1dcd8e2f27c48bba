package pglease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/pglease/pglease-go/db"
)

// How a hybrid backend deals with a holder that hangs.

// hunt ends the session of a holder that hangs: it still has the advisory lock, although its row has expired. If that is not
// allowed, or the lock is held for a lease table of another schema, the note says why nobody gets the lease.
func (h *hybridBackend) hunt(ctx context.Context, a *hybridAttempt) (note string, ended bool, err error) {
	if a.row.ExpiresAt.After(a.row.ObservedAt) {
		h.forgetLook(a.r.Name)
		return "", false, nil
	}
	holder, err := queries.KeyHolder(ctx, a.s, db.KeyHolderParams{Name: a.r.Name, Key: a.p.key})
	if errors.Is(err, sql.ErrNoRows) || err == nil && !holder.Expired {
		h.forgetLook(a.r.Name)
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	if holder.OtherTable != "" {
		h.forgetLook(a.r.Name)
		return fmt.Sprintf("the advisory lock of the name is held for another lease table, %s (pid %d)", holder.OtherTable, holder.PID), false, nil
	}
	if !holder.Named && !h.lookAt(a.r.Name, look{holder.PID, holder.StartedUS, holder.Token, time.Now()}) {
		return "", false, nil
	}
	terminated, err := queries.EvictKeyHolder(ctx, a.s, db.EvictKeyHolderParams{
		Name: a.r.Name, Key: a.p.key, PID: holder.PID, StartedUS: holder.StartedUS, Token: holder.Token,
	})
	switch {
	case stateOf(err) == stateNoPrivilege:
		note = fmt.Sprintf("its term has expired, but its session (pid %d) hangs and keeps the advisory lock, and this role may not end it: grant it pg_signal_backend", holder.PID)
		h.log.Warn("cannot end the session of a holder that hangs", zap.String("name", a.r.Name), zap.Int32("pid", holder.PID), zap.Error(h.fault(ctx, "evict", err)))
		return note, false, nil
	case errors.Is(err, sql.ErrNoRows):
		return "", false, nil
	case err != nil:
		return "", false, err
	}
	h.log.Warn("session of a holder that hangs ended", zap.String("name", a.r.Name), zap.Int32("pid", holder.PID), zap.Bool("terminated", terminated))
	h.forgetLook(a.r.Name)
	return "", terminated, nil
}

// look is what a waiter saw of a holder that seems to hang.
type look struct {
	pid       int32
	startedUS int64
	token     int64
	at        time.Time
}

// lookAt records a look at a holder, and reports whether the same was seen long enough ago.
func (h *hybridBackend) lookAt(name string, now look) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, ok := h.looks[name]
	if !ok || before.pid != now.pid || before.startedUS != now.startedUS || before.token != now.token {
		h.looks[name] = now
		return false
	}
	return now.at.Sub(before.at) >= secondLook
}

func (h *hybridBackend) forgetLook(name string) {
	h.mu.Lock()
	delete(h.looks, name)
	h.mu.Unlock()
}

func (h *hybridBackend) hunting(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.looks[name]
	return ok
}
