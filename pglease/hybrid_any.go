package pglease

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/pglease/pglease-go/db"
	"github.com/pglease/pglease-go/pglease/internal/key"
)

// acquireAny makes one attempt to begin a term under any of the names of r, on one connection.
func (h *hybridBackend) acquireAny(ctx context.Context, r Request) (Grant, error) {
	g, _, err := h.attempt(ctx, r, false)
	return g, err
}

// runAny tries for any one of the names of the request. A name whose lock it wins may be held all the same, by somebody who has come
// between or has locked the row: then it goes on with those that are left.
func (a *hybridAttempt) runAny(ctx context.Context) (g Grant, err error) {
	names := a.r.names()
	var soonest *HeldError
	for {
		a.r.Name, a.r.Others = names[0], names[1:]
		a.guess, a.handed, a.any, a.won = guessNothing, false, true, false
		g, _, err = a.run(ctx, false)
		var held *HeldError
		if !errors.As(err, &held) {
			return g, err
		}
		if soonest == nil || held.Remaining() < soonest.Remaining() {
			soonest = held
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == a.r.Name })
		if !a.won || len(names) == 0 {
			return g, soonest
		}
	}
}

// unlockAny gives up whatever of the keys the session may have.
func (a *hybridAttempt) unlockAny(ctx context.Context, keys string) error {
	sound, cancel, err := soundly(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	clean, err := queries.UnlockAnyKey(sound, a.s, keys)
	if err == nil && !clean {
		err = errors.New("the table has been replaced under the lease")
	}
	a.p.locked = err != nil
	return err
}

// choose sends the statement that takes any one of the names of the request, and goes on with that name alone; if no lock could be had,
// with the one whose term can end first.
func (a *hybridAttempt) choose(ctx context.Context) error {
	keys := make(map[string]string)
	for _, name := range a.r.names() {
		keys[name] = strconv.FormatInt(key.Lease(name), 10)
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	args := db.TakeAnyWithSessionParams{
		Names: string(list), RowWaitMS: hastyRow.Milliseconds(), KeepalivesIdle: a.args.KeepalivesIdle, UserTimeoutMS: a.args.UserTimeoutMS,
		Owner: a.args.Owner, TTLSeconds: a.args.TTLSeconds, NoticeMS: a.args.NoticeMS, Metadata: a.args.Metadata,
	}
	var row db.TakeAnyWithSessionRow
	for n := 1; ; n++ {
		sound, cancel, err := soundly(ctx)
		if err != nil {
			return err
		}
		a.p.locked = true // until it is known that it is not
		a.start = time.Now()
		row, err = ask(sound, a.s, db.TakeAnyWithSession, args, queries.TakeAnyWithSession)
		cancel()
		if err == nil {
			break
		}
		a.p.locked = !errors.Is(err, driver.ErrBadConn)
		if stateOf(err) == stateLockNotAvailable && ctx.Err() == nil { // somebody is making the same row
			err = errAskAgain
		}
		if !again(ctx, n, err) {
			return err
		}
		if err := a.unlockAny(ctx, args.Names); err != nil {
			return err
		}
	}
	a.r.Name, a.r.Others, a.won = row.Name, nil, row.Locked
	a.args.Name, a.args.Key = row.Name, row.Key
	a.p.term.Name, a.p.key, a.p.pid, a.p.locked = row.Name, row.Key, row.PID, row.Locked
	a.row = db.AcquireWithSessionRow{
		State: "busy", Granted: row.Granted, PID: row.PID, OwnerID: row.OwnerID, AcquiredAt: row.AcquiredAt, ExpiresAt: row.ExpiresAt,
		HeartbeatAt: row.HeartbeatAt, Token: row.Token, Session: row.Session, Metadata: row.Metadata, ObservedAt: row.ObservedAt, XID: row.XID,
	}
	if !row.Locked {
		return nil
	}
	a.p.settings = restorable(row.OldSettings)
	if !row.Granted {
		return a.send(ctx, true, false)
	}
	a.row.State = "free"
	return nil
}
