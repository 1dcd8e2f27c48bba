//go:build linux

package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pglease/pglease-go/driver_test/internal/history"
	"github.com/pglease/pglease-go/pglease"
)

// guardedTables hold what only the holder of a lease may write: a number for each name that only survives if one at a time
// reads and writes it, and all writes that were committed. Nothing but CheckTx protects them.
const guardedTables = `
	CREATE TABLE guarded (name text PRIMARY KEY, seq bigint NOT NULL, token bigint NOT NULL);
	CREATE TABLE writes (
		id bigserial PRIMARY KEY, name text NOT NULL, seq bigint NOT NULL, token bigint NOT NULL, read_token bigint NOT NULL,
		client integer NOT NULL, op bigint NOT NULL
	)`

// write makes a guarded write: it reads, pauses, and writes what follows from what it has read. It does not watch the lease
// meanwhile, and sometimes takes longer than the TTL: that the fence holds is its point.
func (a *actor) write(l *pglease.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	tx, err := a.db.BeginTx(ctx, nil)
	if err != nil {
		return
	}
	defer func() { _ = tx.Rollback() }()
	id := a.r.ids.Add(2) // of the commit; the check has the one before
	check := a.r.call(id-1, history.Check, l.Name(), l.Token())
	err = l.CheckTx(ctx, tx)
	a.r.end(check, ofTerm(err), err)
	if err != nil {
		return
	}
	commit, err := a.fill(ctx, tx, l, id)
	if err != nil {
		return
	}
	if err = tx.Commit(); err != nil {
		a.r.end(commit, history.Unknown, err)
		return
	}
	a.r.end(commit, history.OK, nil)
}

// fill does everything between CheckTx and Commit, and writes down the call of the latter.
func (a *actor) fill(ctx context.Context, tx *sql.Tx, l *pglease.Lease, id int64) (*history.Op, error) {
	var seq, token int64
	if err := tx.QueryRowContext(ctx, "SELECT seq, token FROM guarded WHERE name = $1", l.Name()).Scan(&seq, &token); err != nil {
		return nil, err
	}
	most := a.Pause
	if a.rng.IntN(30) == 0 {
		most = min(2*a.Who.TTL, callLimit/2)
	}
	a.pause(ctx, most)
	if _, err := tx.ExecContext(ctx, "UPDATE guarded SET seq = $2, token = $3 WHERE name = $1", l.Name(), seq+1, l.Token()); err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO writes (name, seq, token, read_token, client, op) VALUES ($1, $2, $3, $4, $5, $6)",
		l.Name(), seq+1, l.Token(), token, a.ID, id); err != nil {
		return nil, fmt.Errorf("write: %w", err)
	}
	commit := a.r.call(id, history.Commit, l.Name(), l.Token())
	commit.Seq = seq + 1
	return commit, nil
}
