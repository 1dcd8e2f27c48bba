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

	column   string            // the metadata of whoever holds it,
	metadata map[string]string // and what they say
}

const (
	// freeFor is for how long a name that this client has released is believed to be free.
	freeFor = time.Second
	// mostBeliefs bounds the memory for them: when there are more, all are forgotten.
	mostBeliefs = 10_000
	// mostMetadata is how many bytes of metadata are remembered with a belief.
	mostMetadata = 1 << 10
)

// free notes that a name was released.
func (b *beliefs) free(name string) { b.set(name, belief{free: true, until: time.Now().Add(freeFor)}) }

// held notes that a name is held, and returns what its row's metadata say. They are decoded once for a term, which is a twelfth of the time
// of a client that tries again and again.
func (b *beliefs) held(name string, until time.Time, column string) map[string]string {
	b.mu.Lock()
	known := b.of[name]
	b.mu.Unlock()
	if known.column != column {
		known.metadata = decodeMetadata(column)
	}
	if len(column) <= mostMetadata {
		b.set(name, belief{until: until, column: column, metadata: known.metadata})
	} else {
		b.set(name, belief{until: until})
	}
	return maps.Clone(known.metadata)
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
