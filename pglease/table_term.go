package pglease

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/pglease/pglease-go/db"
)

// renewTerm is how RenewLeases takes a term.
type renewTerm struct {
	Name       string  `json:"name"`
	Token      int64   `json:"token"`
	TTLSeconds float64 `json:"ttl_seconds"`
}

func (t *tableBackend) Renew(ctx context.Context, rs []Renewal) ([]RenewalResult, error) {
	if len(rs) == 0 {
		return nil, nil
	}
	terms := make([]renewTerm, len(rs))
	at := make(map[Term]int, len(rs))
	for i, r := range rs {
		terms[i] = renewTerm{r.Term.Name, r.Term.Token, r.TTL.Seconds()}
		at[r.Term] = i
	}
	list, err := json.Marshal(terms)
	if err != nil {
		return nil, newBackendError("renew", err, t.redact)
	}
	owner := rs[0].Term.Owner
	var rows []db.RenewLeasesRow
	for n := 1; ; n++ {
		err = t.run(ctx, true, func(ctx context.Context, s statements) (err error) {
			rows, err = queries.RenewLeases(ctx, s, db.RenewLeasesParams{Owner: owner, Terms: string(list)})
			if err != nil {
				return err
			}
			for _, row := range rows {
				if row.Renewed {
					return t.committed(ctx, s, row.XID, Term{})
				}
			}
			return nil
		})
		if err == nil {
			break
		}
		if !again(ctx, n, err) {
			return nil, t.fault(ctx, "renew", err)
		}
	}
	results := make([]RenewalResult, len(rs))
	for i := range results {
		results[i].State = RenewalGone
	}
	for _, row := range rows {
		i, ok := at[Term{row.Name, owner, row.Token}]
		switch {
		case !ok:
		case row.Renewed:
			results[i] = RenewalResult{State: RenewalDone, ExpiresAt: row.ExpiresAt.UTC()}
		case row.Current:
			results[i].State = RenewalLocked
		}
	}
	return results, nil
}

func (t *tableBackend) Release(ctx context.Context, term Term, minHold time.Duration) error {
	if t.keeper != nil {
		defer t.keeper.ended(term)
	}
	args := db.ReleaseLeaseParams{MinHoldSeconds: minHold.Seconds(), Name: term.Name, Owner: term.Owner, Token: term.Token}
	var failure error // of a connection that broke before the answer came: drivers may call that ErrBadConn, too
	for n := 1; ; n++ {
		var rows int64
		err := t.run(ctx, true, func(limited context.Context, s statements) (err error) {
			if rows, err = tell(limited, s, db.ReleaseLease, args, queries.ReleaseLease); err != nil || t.given == nil || rows == 0 {
				if broken(ctx, err) {
					failure = err
				}
				return err
			}
			return t.notInTransaction(limited, s)
		})
		switch {
		case err == nil && rows == 0 && failure != nil:
			return t.released(ctx, term, failure)
		case err == nil && rows == 0:
			return ErrLost
		case err == nil:
			if minHold == 0 {
				t.beliefs.free(term.Name)
			}
			return nil
		case n == 1 && t.keeper != nil && broken(ctx, err):
		case !again(ctx, n, err):
			return t.fault(ctx, "release", err)
		}
	}
}

// released tells by the row whether a term was released by a statement that ended with failure, and that, sent again, has changed nothing.
func (t *tableBackend) released(ctx context.Context, term Term, failure error) error {
	row, err := t.Get(ctx, term.Name)
	switch {
	case err == nil && row.Token == term.Token && row.Owner == term.Owner && !row.HeartbeatAt.Before(row.ExpiresAt):
		return nil // only a release makes a row look so
	case err == nil || errors.Is(err, ErrNotFound):
		return ErrLost
	default:
		return t.fault(ctx, "release", failure)
	}
}
