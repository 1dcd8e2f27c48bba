package pgleasetest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

var fencePromises = []promise{
	{"CheckTx refuses a term that is over", checkRefuses},
	{"CheckTx blocks a takeover until its transaction ends, not the heartbeats", checkBlocks},
	{"CheckQuery answers whether the term is current", checkQuery},
}

// begin returns a transaction, or one that is never looked at.
func (s *suite) begin(t *testing.T) *sql.Tx {
	t.Helper()
	if s.Begin == nil {
		return new(sql.Tx)
	}
	return s.Begin(t)
}

func (s *suite) end(tx *sql.Tx) {
	if s.Begin != nil {
		_ = tx.Rollback()
	}
}

func checkRefuses(t *testing.T, s *suite) {
	c := s.client(t)
	check := func(l *pglease.Lease) error {
		tx := s.begin(t)
		defer s.end(tx)
		return l.CheckTx(patient(t), tx)
	}
	l := try(t, c, s.name(t))
	if err := l.CheckTx(patient(t), nil); err == nil {
		t.Error("CheckTx without a transaction: no error")
	}
	if err := check(l); err != nil {
		t.Errorf("CheckTx of a held lease: %v", err)
	}
	release(t, l)
	mustBe(t, "CheckTx of a released lease", check(l), pglease.ErrReleased)
	for what, end := range map[string]func(string){
		"an expired lease": func(name string) { s.Expire(t, name) },
		"a deleted row":    func(name string) { s.Delete(t, name) },
		"a successor":      func(name string) { s.Expire(t, name); acquire(t, s.client(t), name) },
		"a forced lease": func(name string) {
			if _, err := c.ForceRelease(patient(t), name); err != nil {
				t.Fatal(err)
			}
		},
	} {
		l := try(t, c, s.name(t))
		end(l.Name())
		mustBeLost(t, "CheckTx of "+what, check(l), l)
		mustBeLost(t, "Err after it", l.Err(), l)
		await(t, "Done after it", l.Done())
	}
}

func checkBlocks(t *testing.T, s *suite) {
	if s.Begin == nil {
		t.Log("not run: the backend's Check ignores its transaction")
		return
	}
	name := s.name(t)
	c, other := s.client(t), s.client(t)
	l := try(t, c, name)
	tx := s.Begin(t)
	if err := l.CheckTx(patient(t), tx); err != nil {
		t.Fatal(err)
	}
	if err := l.Renew(patient(t)); err != nil {
		t.Errorf("a heartbeat beside an open CheckTx: %v", err)
	}
	release(t, l)
	if held := mustBeHeld(t, other, name); !held.Expired() {
		t.Errorf("who stands in the way: %+v, want the released term", held)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := other.Acquire(ctx, name); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait beside an open CheckTx: %v, want DeadlineExceeded", err)
	}
	if _, err := other.ForceRelease(patient(t), name); err == nil || errors.Is(err, pglease.ErrHeld) {
		t.Errorf("ForceRelease beside an open CheckTx: %v, want an error that names the guard", err)
	}
	if err := tx.Commit(); err != nil {
		t.Errorf("the guarded transaction: %v", err)
	}
	if next := acquire(t, other, name); next.Token() <= l.Token() {
		t.Errorf("token %d after %d", next.Token(), l.Token())
	}
}

func checkQuery(t *testing.T, s *suite) {
	l := try(t, s.client(t), s.name(t))
	query, args := l.CheckQuery()
	if query == "" {
		t.Fatal("CheckQuery: no statement")
	}
	if s.Begin == nil {
		return
	}
	ask := func() (current bool) {
		tx := s.Begin(t)
		defer s.end(tx)
		if err := tx.QueryRowContext(patient(t), query, args...).Scan(&current); err != nil {
			t.Fatalf("CheckQuery: %v", err)
		}
		return current
	}
	if !ask() {
		t.Error("CheckQuery of a held lease answers false")
	}
	release(t, l)
	if ask() {
		t.Error("CheckQuery of a released lease answers true")
	}
}
