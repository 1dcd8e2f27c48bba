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

func TestAnAcquireThatCouldNotConnectIsNotWithdrawn(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		seen := new(events)
		c := open(t, db, pglease.WithObserver(seen))
		dials := 0
		server.Dial(func(context.Context) error { dials++; return errors.New("connection refused") })
		_, err := c.TryAcquire(t.Context(), t.Name())
		var failure *pglease.BackendError
		if !errors.As(err, &failure) || errors.Is(err, pglease.ErrHeld) {
			t.Errorf("TryAcquire: %#v", err)
		}
		time.Sleep(time.Minute)
		if withdrawn := seen.of(pglease.EventWithdraw); len(withdrawn) > 0 || dials != 1 {
			t.Errorf("%d connections were tried; events %+v", dials, withdrawn)
		}
	})
}

// H8: the answer of a grant is lost on its way, or comes when nobody waits for it any more.
func TestAGrantWithALostAnswerIsTakenBack_H8(t *testing.T) {
	answers := map[string]func(context.Context, fakedb.Statement) error{
		"reset":                fail(errors.New("connection reset by peer")),
		"cancelled by request": fail(fakedb.Error("57014")),
		"slow, obedient":       slow(3 * time.Second),
		"slow, deaf":           func(context.Context, fakedb.Statement) error { time.Sleep(3 * time.Second); return nil },
		"never, obedient":      obey,
	}
	for what, answer := range answers {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
				seen := new(events)
				c := open(t, db, pglease.WithObserver(seen))
				server.After(only("attempt", answer))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				l, err := c.TryAcquire(ctx, t.Name())
				if l != nil || err == nil || errors.Is(err, pglease.ErrHeld) {
					t.Fatalf("TryAcquire: %v, %v", l, err)
				}
				time.Sleep(3 * time.Second)
				row, there := server.Row(t.Name())
				if !there || row.ExpiresAt.After(time.Now()) {
					t.Errorf("the row is held by nobody for another %v", time.Until(row.ExpiresAt))
				}
				told := seen.of(pglease.EventWithdraw)
				if len(told) == 0 {
					t.Error("no event tells of it")
				}
				for _, e := range told { // two, if it was taken back before its answer came, and looked for after
					if e.Err != nil {
						t.Errorf("event: %+v", e)
					}
				}
			})
		})
	}
}

// 40001, 40P01 and a changed plan are asked again; the trust counts from the attempt that succeeded.
func TestTransientErrorsAreAskedAgain_D3_D4(t *testing.T) {
	for state, times := range map[fakedb.Error]int{"40001": 5, "40P01": 5, "0A000": 1} {
		t.Run(string(state), func(t *testing.T) {
			bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
				c := open(t, db)
				failing := func(_ context.Context, st fakedb.Statement) error {
					if st.N <= times {
						return state
					}
					return nil
				}
				server.Before(failing)
				l := acquire(t, c, t.Name())
				sent := server.Sent("attempt")
				if last := sent[len(sent)-1].At; l.Deadline().Sub(last) != 29*time.Second {
					t.Errorf("deadline %v after the successful attempt", l.Deadline().Sub(last))
				}
				if err := l.Renew(t.Context()); err != nil {
					t.Errorf("Renew: %v", err)
				}
				if err := l.Release(t.Context()); err != nil {
					t.Errorf("Release: %v", err)
				}
				for _, name := range []string{"AcquireLease", "RenewLeases", "ReleaseLease"} {
					if n := len(server.Sent(name)); n != times+1 {
						t.Errorf("%s was sent %d times, want %d", name, n, times+1)
					}
				}
			})
		})
	}
}
