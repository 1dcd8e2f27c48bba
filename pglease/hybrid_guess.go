package pglease

import (
	"context"

	"github.com/pglease/pglease-go/db"
)

// A guess is what is believed of a name; see beliefs.
type guess int

const (
	guessNothing guess = iota
	guessFree
	guessHeld
)

// ask sends one statement: for a guess the cheaper one. definite reports that its answer needs no other. There is nothing to guess
// for who has the lock: the cheaper ones take it, and a session that had it twice would keep it after the release (P4).
func (a *hybridAttempt) ask(ctx context.Context) (row db.AcquireWithSessionRow, definite bool, err error) {
	switch {
	case a.guess == guessHeld && !a.args.HaveLock:
		peek, err := ask(ctx, a.s, db.PeekWithSession, db.PeekWithSessionParams{Name: a.args.Name, Key: a.args.Key}, queries.PeekWithSession)
		row = db.AcquireWithSessionRow{
			State: "free", PID: peek.PID, OwnerID: peek.OwnerID, AcquiredAt: peek.AcquiredAt, ExpiresAt: peek.ExpiresAt,
			HeartbeatAt: peek.HeartbeatAt, Token: peek.Token, Session: peek.Session, Metadata: peek.Metadata, ObservedAt: peek.ObservedAt,
		}
		if peek.Busy {
			row.State = "busy"
		}
		return row, peek.Busy, err
	case a.guess == guessFree && !a.args.HaveLock:
		take, err := ask(ctx, a.s, db.TakeWithSession, db.TakeWithSessionParams{
			Key: a.args.Key, Name: a.args.Name, Owner: a.args.Owner, TTLSeconds: a.args.TTLSeconds, NoticeMS: a.args.NoticeMS, Metadata: a.args.Metadata,
			RowWaitMS: a.args.RowWaitMS, KeepalivesIdle: a.args.KeepalivesIdle, UserTimeoutMS: a.args.UserTimeoutMS,
		}, queries.TakeWithSession)
		row = db.AcquireWithSessionRow{
			State: "free", Granted: take.Granted, OldSettings: take.OldSettings, PID: take.PID, AcquiredAt: take.AcquiredAt,
			ExpiresAt: take.ExpiresAt, Token: take.Token, XID: take.XID,
		}
		if take.Busy {
			row.State = "busy"
		}
		return row, take.Granted, err
	default:
		row, err = ask(ctx, a.s, db.AcquireWithSession, a.args, queries.AcquireWithSession)
		return row, row.State != "free" || row.Granted, err
	}
}
