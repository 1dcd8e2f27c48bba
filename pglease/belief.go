package pglease

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/pglease/pglease-go/db"
)

// beliefs are what a client has seen of names last. They choose the statement to ask with, no more: each statement finds out
// for itself what is true, and a wrong belief costs one statement. AcquireLease is right for every case, and dear to plan.
type beliefs struct {
	mu sync.Mutex
	of map[string]belief
}

type belief struct {
	free  bool // or else held
	until time.Time

	metadata, session string // of the row of whoever holds it,
	said              said   // and what they say
}

// said is what two columns of a row say, decoded.
type said struct {
	metadata map[string]string
	evidence evidence
}

const (
	// freeFor is for how long a name that this client has released is believed to be free.
	freeFor = time.Second
	// mostBeliefs bounds the memory for them: when there are more, all are forgotten.
	mostBeliefs = 10_000
	// mostSaid is how many bytes of a row are remembered with a belief.
	mostSaid = 1 << 10
)

// free notes that a name was released.
func (b *beliefs) free(name string) { b.set(name, belief{free: true, until: time.Now().Add(freeFor)}) }

// held notes that a name is held until then, and returns what its row says. That is decoded once for a term: it is a tenth of the time of a client that
// tries again and again, and of a hybrid one a fifth.
func (b *beliefs) held(row db.GetLeaseRow, until time.Time) said {
	b.mu.Lock()
	known := b.of[row.TaskName]
	b.mu.Unlock()
	if known.metadata != row.Metadata || known.session != row.Session {
		known.said = said{decodeMetadata(row.Metadata), decodeEvidence(row.Session)}
	}
	if len(row.Metadata)+len(row.Session) <= mostSaid {
		b.set(row.TaskName, belief{until: until, metadata: row.Metadata, session: row.Session, said: known.said})
	} else {
		b.set(row.TaskName, belief{until: until})
	}
	return said{maps.Clone(known.said.metadata), known.said.evidence}
}

func (b *beliefs) set(name string, is belief) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil || len(b.of) >= mostBeliefs {
		b.of = make(map[string]belief)
	}
	b.of[name] = is
}

func (b *beliefs) forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.of, name)
}

// get reports what is believed of name; neither, if nothing is.
func (b *beliefs) get(name string) (free, held bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, ok := b.of[name]
	if !ok || !time.Now().Before(known.until) {
		return false, false
	}
	return known.free, !known.free
}

// askFor sends one attempt: the statement that is cheapest if the belief is true, and what must follow if it is not.
func (t *tableBackend) askFor(ctx context.Context, s statements, args db.AcquireLeaseParams) (db.AcquireAnyLeaseRow, error) {
	free, held := t.beliefs.get(args.Name)
	if free || held {
		t.prepares.count()
	}
	if held {
		row, err := ask(ctx, s, db.ReadLease, readLeaseParams{args.Name}, readLease)
		if err == nil && row.ExpiresAt.After(row.ObservedAt) {
			return db.AcquireAnyLeaseRow{
				TaskName: args.Name, OwnerID: row.OwnerID, AcquiredAt: row.AcquiredAt, ExpiresAt: row.ExpiresAt, HeartbeatAt: row.HeartbeatAt,
				Token: row.Token, Session: row.Session, Metadata: row.Metadata, ObservedAt: row.ObservedAt,
			}, nil
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return db.AcquireAnyLeaseRow{}, err
		}
		free = err == nil
	}
	if free {
		row, err := ask(ctx, s, db.TakeLease, db.TakeLeaseParams{
			Owner: args.Owner, TTLSeconds: args.TTLSeconds, Metadata: args.Metadata, Name: args.Name,
		}, queries.TakeLease)
		if err == nil {
			return db.AcquireAnyLeaseRow{
				Granted: true, TaskName: args.Name, OwnerID: args.Owner, AcquiredAt: row.AcquiredAt, ExpiresAt: row.ExpiresAt,
				HeartbeatAt: row.AcquiredAt, Token: row.Token, ObservedAt: row.AcquiredAt, XID: row.XID,
			}, nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return db.AcquireAnyLeaseRow{}, err
		}
	}
	row, err := ask(ctx, s, db.AcquireLease, args, queries.AcquireLease)
	return db.AcquireAnyLeaseRow{
		Granted: row.Granted, TaskName: args.Name, OwnerID: row.OwnerID, AcquiredAt: row.AcquiredAt, ExpiresAt: row.ExpiresAt,
		HeartbeatAt: row.HeartbeatAt, Token: row.Token, Session: row.Session, Metadata: row.Metadata, ObservedAt: row.ObservedAt, XID: row.XID,
	}, err
}

type readLeaseParams struct{ Name string }

func readLease(ctx context.Context, d db.DBTX, p readLeaseParams) (db.ReadLeaseRow, error) {
	return queries.ReadLease(ctx, d, p.Name)
}
