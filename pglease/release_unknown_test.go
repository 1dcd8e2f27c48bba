package pglease_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/internal/fakedb"
)

// The server has released the row, and the answer came too late for the statement's own limit, though not for the caller.
func TestAReleaseThatIsAnsweredTooLateIsARelease(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		l := acquire(t, c, t.Name())
		server.After(only("ReleaseLease", func(ctx context.Context, st fakedb.Statement) error {
			if st.N == 1 {
				return fakedb.Obey(ctx)
			}
			return slow(time.Second)(ctx, st)
		}))
		start := time.Now()
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
		took(t, "Release", start, 6*time.Second)
		if n := len(server.Sent("ReleaseLease")); n != 2 {
			t.Errorf("sent %d times, want 2", n)
		}
	})
}

// Where the row cannot tell, the outcome is unknown: that is not a loss.
func TestAReleaseWhoseOutcomeIsUnknownIsNoLoss(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		l := acquire(t, c, t.Name())
		server.Hook(only("GetLease", fail(fakedb.Error("40001"))), only("ReleaseLease", func(ctx context.Context, st fakedb.Statement) error {
			if st.N == 1 {
				return fakedb.Obey(ctx)
			}
			return nil
		}))
		if err := l.Release(t.Context()); err == nil || errors.Is(err, pglease.ErrLost) {
			t.Errorf("Release: %v", err)
		}
		server.Hook(nil, nil)
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("again: %v", err)
		}
	})
}
