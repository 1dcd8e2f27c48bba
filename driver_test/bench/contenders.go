//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/wire"
	"github.com/pglease/pglease-go/pglease"
)

// A place is where a contender runs.
type place struct {
	ctx    context.Context
	driver string
	dsn    string
	count  *wire.Counter // or nil
}

func (p *place) pool() (*sql.DB, error) { return open(p.driver, p.dsn, p.count) }

// A contender is one way to be the only one who does a thing.
type contender struct {
	name  string
	start func(p *place) (*racer, error)

	// What cannot be measured, with the reason; "" if it can.
	notMany string // several names at once
	notTry  string // a try that returns while somebody holds it
}

// A racer is a contender that has started.
type racer struct {
	cycle func(ctx context.Context, i int) error // acquires and releases the i-th name
	hold  func(ctx context.Context) error        // acquires what try then tries for
	try   func(ctx context.Context, i int) error // nil if it was told that the name is held
	close func() error
}

var contenders = []contender{
	{name: "floor", start: startFloor},
	{name: "pglease table", start: func(p *place) (*racer, error) { return startPglease(p) }},
	{name: "pglease hybrid", start: func(p *place) (*racer, error) { return startPglease(p, pglease.WithHybrid()) }},
	{name: "the floor on the lease table", start: startWideFloor, notTry: "it is there for the cycle"},
	{name: "the table's statements alone", start: startTableStatements},
	{name: "hybrid's statements alone", start: startHybridStatements},
	{name: "goose session lock", start: startGooseSession, notTry: "it pauses a second and asks again"},
	{name: "goose table lock", start: startGooseTable},
	{name: "golang-migrate", start: startMigrate, notTry: "its lock waits"},
	{name: "river elector", start: startRiver, notMany: "one leader a schema"},
}

// The floor is the barest statements that can do the job, prepared on a pool: a token that counts, no metadata, no lock that holds off
// a guarded write, no heartbeat, and nobody is told who holds.
const (
	floorSchema = `CREATE TABLE bench_floor (
		task_name text PRIMARY KEY, owner_id text NOT NULL, token bigint NOT NULL, expires_at timestamptz NOT NULL
	) WITH (fillfactor = 50)`

	floorTake = `INSERT INTO bench_floor AS l (task_name, owner_id, token, expires_at)
		VALUES ($1, $2, 1, clock_timestamp() + interval '30 s')
		ON CONFLICT (task_name) DO UPDATE SET owner_id = excluded.owner_id, token = l.token + 1, expires_at = excluded.expires_at
		WHERE l.expires_at <= clock_timestamp() RETURNING token`
	floorRelease = `UPDATE bench_floor SET expires_at = clock_timestamp() WHERE task_name = $1 AND owner_id = $2 AND token = $3`
	floorRead    = `SELECT owner_id, token, expires_at FROM bench_floor WHERE task_name = $1 AND expires_at > clock_timestamp()`
)

func startFloor(p *place) (*racer, error) {
	db, err := p.pool()
	if err != nil {
		return nil, err
	}
	var prepared [3]*sql.Stmt
	for i, text := range []string{floorTake, floorRelease, floorRead} {
		if prepared[i], err = db.PrepareContext(p.ctx, text); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	take, release, read := prepared[0], prepared[1], prepared[2]
	owner := p.driver
	return &racer{
		cycle: func(ctx context.Context, i int) error {
			var token int64
			if err := take.QueryRowContext(ctx, raceName(p, i), owner).Scan(&token); err != nil {
				return err
			}
			result, err := release.ExecContext(ctx, raceName(p, i), owner, token)
			if err != nil {
				return err
			}
			return oneRow(result.RowsAffected())
		},
		hold: func(ctx context.Context) error {
			_, err := db.ExecContext(ctx, `INSERT INTO bench_floor VALUES ($1, $2, 1, clock_timestamp() + interval '1 day')
				ON CONFLICT (task_name) DO UPDATE SET expires_at = excluded.expires_at`, heldName(p), owner)
			return err
		},
		try: func(ctx context.Context, _ int) error {
			var who string
			var token int64
			var until time.Time
			return read.QueryRowContext(ctx, heldName(p)).Scan(&who, &token, &until)
		},
		close: db.Close,
	}, nil
}

func startPglease(p *place, opts ...pglease.Option) (*racer, error) {
	db, err := p.pool()
	if err != nil {
		return nil, err
	}
	var clients [2]*pglease.Client // who races, and who holds what is tried for
	for i := range clients {
		if clients[i], err = pglease.New(db, opts...); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	name := raceName
	held := heldName(p)
	if len(opts) > 0 { // two names, since both backends race for a driver
		name = func(p *place, i int) string { return raceName(p, i) + "-hybrid" }
		held += "-hybrid"
	}
	return &racer{
		cycle: func(ctx context.Context, i int) error {
			l, err := clients[0].TryAcquire(ctx, name(p, i))
			if err != nil {
				return err
			}
			return l.Release(ctx)
		},
		hold: func(ctx context.Context) error { _, err := clients[1].TryAcquire(ctx, held); return err },
		try: func(ctx context.Context, _ int) error {
			l, err := clients[0].TryAcquire(ctx, held)
			if err == nil {
				return errors.Join(errors.New("a held lease was granted"), l.Release(ctx))
			}
			if !errors.Is(err, pglease.ErrHeld) {
				return err
			}
			return nil
		},
		close: func() error {
			return errors.Join(clients[0].Close(p.ctx), clients[1].Close(p.ctx), db.Close())
		},
	}, nil
}

// raceNames are made beforehand, so that no contender is charged for them.
var raceNames = func() map[string][]string {
	names := map[string][]string{}
	for _, driver := range drivers {
		for i := range goroutines {
			names[driver] = append(names[driver], fmt.Sprintf("race-%s-%d", driver, i))
		}
	}
	return names
}()

func raceName(p *place, i int) string { return raceNames[p.driver][i] }

func heldName(p *place) string { return "held-" + p.driver }
