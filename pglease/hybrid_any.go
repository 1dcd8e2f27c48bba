package pglease

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
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
		Names: string(list), Settings: sessionSettings(a.r.TTL, hastyRow), Owner: a.args.Owner, TTLSeconds: a.args.TTLSeconds,
		NoticeMS: a.args.NoticeMS, Metadata: a.args.Metadata,
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
		for name := range keys { // it may have any of them
			a.p.key = key.Lease(name)
			if err := a.unlock(ctx); err != nil {
				return err
			}
		}
	}
	a.r.Name, a.r.Others = row.Name, nil
	a.args.Name, a.args.Key = row.Name, row.Key
	a.p.term.Name, a.p.key, a.p.pid, a.p.locked = row.Name, row.Key, row.PID, row.Locked
	a.row = db.AcquireWithSessionRow{
		State: "busy", Granted: row.Granted, PID: row.PID, OwnerID: row.OwnerID, AcquiredAt: row.AcquiredAt, ExpiresAt: row.ExpiresAt,
		HeartbeatAt: row.HeartbeatAt, Token: row.Token, Session: row.Session, Metadata: row.Metadata, ObservedAt: row.ObservedAt, XID: row.XID,
	}
	if !row.Locked {
		return nil
	}
	a.p.settings = row.OldSettings
	if !row.Granted {
		return a.send(ctx, true, false)
	}
	a.row.State = "free"
	return nil
}
