//go:build linux

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/history"
	"github.com/pglease/pglease-go/driver_test/internal/pyworker"
)

// actAsPython is a worker of the Python package's kind: it knows no tokens, deletes the row when it releases, and trusts its
// own clock, which here is the server's. It counts as trusting its lease as long as a client of ours would: the start of the
// last success, and the TTL less the margin.
func actAsPython(ctx context.Context, s setup, r *recorder, db *sql.DB) error {
	rng := rand.New(rand.NewPCG(s.Seed, 0))
	w := &pyworker.Worker{DB: db, Owner: fmt.Sprintf("python-%d", s.ID), TTL: s.Who.TTL}
	for ctx.Err() == nil {
		name := s.Names[rng.IntN(len(s.Names))]
		calling, cancel := context.WithTimeout(context.Background(), callLimit)
		o := r.call(0, history.Take, name, 0)
		mine, err := w.Acquire(calling, name)
		cancel()
		switch {
		case err != nil:
			r.end(o, history.Unknown, err)
		case !mine:
			r.end(o, history.Held, nil)
		default:
			o.Token = -o.ID
			o.Deadline = o.Call + int64(r.trust())
			r.end(o, history.OK, nil)
			holdAsPython(ctx, w, r, rng, o)
		}
		sleep(ctx, time.Duration(rng.IntN(300))*time.Millisecond)
	}
	return nil
}

// holdAsPython sends some heartbeats, and releases.
func holdAsPython(ctx context.Context, w *pyworker.Worker, r *recorder, rng *rand.Rand, o *history.Op) {
	deadline := o.Deadline
	for range rng.IntN(4) {
		sleep(ctx, w.TTL/3)
		calling, cancel := context.WithTimeout(context.Background(), w.TTL/3)
		at := now()
		mine, err := w.Heartbeat(calling, o.Name)
		cancel()
		if err == nil && !mine || now() > deadline {
			break
		}
		if err == nil {
			deadline = at + int64(r.trust())
			r.write(history.Op{Action: history.Look, Name: o.Name, Token: o.Token, Call: at, Return: now(), Outcome: history.OK, Deadline: deadline})
		}
	}
	at := now()
	r.write(history.Op{Action: history.Distrust, Name: o.Name, Token: o.Token, Call: at, Return: at, Deadline: deadline})
	for range 4 {
		calling, cancel := context.WithTimeout(context.Background(), callLimit)
		err := w.Release(calling, o.Name)
		cancel()
		if err == nil || errors.Is(err, sql.ErrConnDone) {
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
