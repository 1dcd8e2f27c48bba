//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/history"
	"github.com/pglease/pglease-go/pglease"
)

// A recorder writes down what one process does. Each line is written at once: what the process did not live to finish stands
// there too.
type recorder struct {
	client int
	ttl    time.Duration
	ids    atomic.Int64

	renewed sync.Map // tokens of ours that were renewed at least once

	mu   sync.Mutex
	file *os.File
}

func newRecorder(path string, client int, ttl time.Duration) (*recorder, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &recorder{client: client, ttl: ttl, file: f}, nil
}

func (r *recorder) write(o history.Op) {
	o.Client = r.client
	line, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		panic(err) // a history with a hole is worth nothing
	}
}

// call writes down that an operation begins. id is 0 for the next free one.
func (r *recorder) call(id int64, action history.Action, name string, token int64) *history.Op {
	if id == 0 {
		id = r.ids.Add(1)
	}
	o := &history.Op{ID: id, Action: action, Name: name, Token: token, Call: now()}
	r.write(*o)
	return o
}

// end writes down how it ended, and has to be called at once.
func (r *recorder) end(o *history.Op, outcome history.Outcome, err error) {
	o.Return = now()
	o.Outcome = outcome
	if err != nil {
		o.Error = err.Error()
	}
	r.write(*o)
}

// granted writes down the end of an acquire that was granted, and from then on watches for the end of the term.
func (r *recorder) granted(o *history.Op, l *pglease.Lease, watches *sync.WaitGroup) {
	o.Token, o.Owner = l.Token(), l.Owner()
	o.Deadline = common(l.Deadline())
	if _, late := r.renewed.Load(l.Token()); !late {
		o.Start = o.Deadline - int64(r.trust())
	}
	r.end(o, history.OK, nil)
	watches.Go(func() {
		<-l.Done()
		at := now()
		r.write(history.Op{Action: history.Distrust, Name: l.Name(), Token: l.Token(), Call: at, Return: at,
			Deadline: common(l.Deadline()), Error: l.Err().Error()})
	})
}

// trust is how long a success is trusted: the TTL less the safety margin that is the library's default.
func (r *recorder) trust() time.Duration { return r.ttl - min(time.Second, r.ttl/10) }

// look asks whether the lease is in order, and writes it down if it is.
func (r *recorder) look(l *pglease.Lease) bool {
	at := now()
	if l.Err() != nil {
		return false
	}
	r.write(history.Op{Action: history.Look, Name: l.Name(), Token: l.Token(), Call: at, Return: now(), Outcome: history.OK})
	return true
}

// Observe writes down each renewal, that of a heartbeat too.
func (r *recorder) Observe(_ context.Context, e pglease.Event) {
	if e.Kind != pglease.EventRenew {
		return
	}
	r.renewed.Store(e.Token, true)
	o := history.Op{Action: history.Renew, Name: e.Name, Token: e.Token, Call: common(e.Start), Return: now(), Outcome: ofTerm(e.Err)}
	if e.Err != nil {
		o.Error = e.Err.Error()
	} else {
		o.Deadline = o.Call + int64(r.trust())
	}
	r.write(o)
}

// ofTerm is the outcome of an operation on a term.
func ofTerm(err error) history.Outcome {
	var lost *pglease.LostError
	switch {
	case err == nil:
		return history.OK
	case errors.As(err, &lost) && lost.Reason == pglease.LossGone:
		return history.Gone
	case errors.As(err, &lost):
		return history.No // the process ended its trust by itself, which says nothing of the server
	default:
		return history.Unknown
	}
}
