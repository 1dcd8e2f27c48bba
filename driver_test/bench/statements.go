//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pglease/pglease-go/db"
)

// Where the time of a lease goes: the floor's statements on the lease table, with its wider row; then what queries/ has for the most
// frequent case, but prepared, and without the library around it. What the table is slower than these costs the client, and
// what they are slower than the floor costs the row that tells who holds the lease, the lock that a guarded write can hold against a
// taker, and with hybrid the advisory lock and the settings of the session.
const (
	wideTake = `INSERT INTO pglease_leases AS l (task_name, owner_id, acquired_at, expires_at, heartbeat_at)
		VALUES ($1, $2, clock_timestamp(), clock_timestamp() + interval '30 s', clock_timestamp())
		ON CONFLICT (task_name) DO UPDATE SET owner_id = excluded.owner_id, token = l.token + 1, acquired_at = excluded.acquired_at,
			expires_at = excluded.expires_at, heartbeat_at = excluded.heartbeat_at
		WHERE l.expires_at <= clock_timestamp() RETURNING token`
	wideRelease = `UPDATE pglease_leases SET expires_at = statement_timestamp(), heartbeat_at = statement_timestamp()
		WHERE task_name = $1 AND owner_id = $2 AND token = $3`

	metadata = `{"pid": "4242", "host": "bench", "program": "bench", "version": "v0.0.0", "attempt": "1"}`
)

// A preparer prepares each statement once, on one connection.
type preparer struct {
	*sql.Conn
	of map[string]*sql.Stmt
}

func (p *preparer) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if p.of[query] == nil {
		s, err := p.PrepareContext(ctx, query)
		if err != nil {
			return p.Conn.QueryRowContext(ctx, query, args...) // which says the same
		}
		p.of[query] = s
	}
	return p.of[query].QueryRowContext(ctx, args...)
}

func (p *preparer) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if p.of[query] == nil {
		s, err := p.PrepareContext(ctx, query)
		if err != nil {
			return nil, err
		}
		p.of[query] = s
	}
	return p.of[query].ExecContext(ctx, args...)
}

// A step is what a racer does again and again, with a connection and a row of the goroutine's own.
type step func(ctx context.Context, s *preparer, name string, i int) error

// startPrepared returns a racer of such steps. hold and try may be nil; both have the row of the first goroutine, and connections of their own.
func startPrepared(p *place, kind string, cycle, hold, try step) (*racer, error) {
	pool, err := p.pool()
	if err != nil {
		return nil, err
	}
	r := &racer{close: pool.Close}
	sessions := make([]*preparer, goroutines+1) // the last is the holder's
	names := make([]string, goroutines)
	for i := range names {
		names[i] = raceName(p, i) + kind
		_, err := pool.ExecContext(p.ctx, `INSERT INTO pglease_leases (task_name, owner_id, acquired_at, expires_at, heartbeat_at)
			VALUES ($1, '', now(), now(), now()) ON CONFLICT DO NOTHING`, names[i])
		if err != nil {
			return nil, errors.Join(err, pool.Close())
		}
	}
	do := func(ctx context.Context, f step, session, i int) error {
		if sessions[session] == nil {
			conn, err := pool.Conn(ctx)
			if err != nil {
				return err
			}
			sessions[session] = &preparer{conn, map[string]*sql.Stmt{}}
		}
		return f(ctx, sessions[session], names[i], i)
	}
	r.cycle = func(ctx context.Context, i int) error { return do(ctx, cycle, i, i) }
	r.hold = func(ctx context.Context) error { return do(ctx, hold, goroutines, 0) }
	r.try = func(ctx context.Context, i int) error { return do(ctx, try, i, i) }
	r.close = func() error {
		var errs []error
		for _, s := range sessions {
			if s != nil {
				errs = append(errs, s.Close())
			}
		}
		return errors.Join(append(errs, pool.Close())...)
	}
	return r, nil
}

func startWideFloor(p *place) (*racer, error) {
	return startPrepared(p, "-wide", func(ctx context.Context, s *preparer, name string, _ int) error {
		var token int64
		if err := s.QueryRowContext(ctx, wideTake, name, p.driver).Scan(&token); err != nil {
			return err
		}
		result, err := s.ExecContext(ctx, wideRelease, name, p.driver, token)
		if err != nil {
			return err
		}
		return oneRow(result.RowsAffected())
	}, nil, nil)
}

func startTableStatements(p *place) (*racer, error) {
	q := db.New()
	hold := func(ctx context.Context, s *preparer, name string, _ int) error {
		_, err := q.TakeLease(ctx, s, db.TakeLeaseParams{Owner: p.driver, TTLSeconds: 86400, Metadata: metadata, Name: name})
		return err
	}
	try := func(ctx context.Context, s *preparer, name string, _ int) error {
		row, err := q.ReadLease(ctx, s, name)
		if err == nil && !row.ExpiresAt.After(row.ObservedAt) {
			err = errors.New("the row has expired")
		}
		return err
	}
	return startPrepared(p, "-statements", func(ctx context.Context, s *preparer, name string, _ int) error {
		row, err := q.TakeLease(ctx, s, db.TakeLeaseParams{Owner: p.driver, TTLSeconds: 30, Metadata: metadata, Name: name})
		if err != nil {
			return err
		}
		return oneRow(q.ReleaseLease(ctx, s, db.ReleaseLeaseParams{Name: name, Owner: p.driver, Token: row.Token}))
	}, hold, try)
}

func startHybridStatements(p *place) (*racer, error) {
	q := db.New()
	seed := time.Now().UnixNano()
	hold := func(ctx context.Context, s *preparer, name string, i int) error {
		_, err := q.TakeWithSession(ctx, s, db.TakeWithSessionParams{
			Key: seed + int64(i), Name: name, Owner: p.driver, TTLSeconds: 86400, NoticeMS: 100, Metadata: metadata,
			RowWaitMS: 100, KeepalivesIdle: 28, UserTimeoutMS: 31000,
		})
		return err
	}
	try := func(ctx context.Context, s *preparer, name string, i int) error {
		row, err := q.PeekWithSession(ctx, s, db.PeekWithSessionParams{Key: seed + int64(i), Name: name})
		if err == nil && !row.Busy {
			err = errors.New("the advisory lock was free")
		}
		return err
	}
	return startPrepared(p, "-session-statements", func(ctx context.Context, s *preparer, name string, i int) error {
		key := seed + int64(i)
		row, err := q.TakeWithSession(ctx, s, db.TakeWithSessionParams{
			Key: key, Name: name, Owner: p.driver, TTLSeconds: 30, NoticeMS: 100, Metadata: metadata,
			RowWaitMS: 100, KeepalivesIdle: 28, UserTimeoutMS: 31000,
		})
		if err != nil {
			return err
		}
		released, err := q.ReleaseWithSession(ctx, s, db.ReleaseWithSessionParams{
			Name: name, Owner: p.driver, Token: row.Token, Key: key, Settings: row.OldSettings,
		})
		if err == nil && !released.Unlocked {
			err = errors.New("the advisory lock was not there")
		}
		return err
	}, hold, try)
}

func oneRow(n int64, err error) error {
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows released", n)
	}
	return err
}

var _ db.DBTX = (*preparer)(nil)
