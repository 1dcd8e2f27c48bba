package pglease_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/internal/fakedb"
)

func TestACancelledWaitSaysWhatTheLastAnswerWas(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		l := acquire(t, c, t.Name())
		wait := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			start := time.Now()
			got, err := c.Acquire(ctx, t.Name())
			if got != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Acquire: %v, %v", got, err)
			}
			took(t, "Acquire", start, 10*time.Second)
			return err
		}
		if err := wait(); !errors.Is(err, pglease.ErrHeld) {
			t.Errorf("the last answer was held: %v", err)
		}
		time.AfterFunc(5*time.Second, func() { server.Before(only("attempt", fail(fakedb.Error("57P03")))) })
		err := wait()
		var failure *pglease.BackendError
		if errors.Is(err, pglease.ErrHeld) || !errors.As(err, &failure) || failure.SQLState != "57P03" {
			t.Errorf("the last answer was a failure: %v", err)
		}
		server.Before(only("attempt", obey))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Acquire(ctx, t.Name()); err != context.DeadlineExceeded { //nolint:errorlint // nothing was answered, so exactly this
			t.Errorf("no answer: %v", err)
		}
		server.Before(nil)
		if l.Err() != nil {
			t.Error(l.Err())
		}
	})
}

// Before the first answer a failure that may pass ends the wait after three attempts; afterwards it is waited out.
func TestAWaitAndAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		server.Before(only("attempt", fail(fakedb.Error("57P03"))))
		var failure *pglease.BackendError
		if _, err := c.Acquire(t.Context(), t.Name()); !errors.As(err, &failure) {
			t.Errorf("Acquire during an outage: %v", err)
		}
		if n := len(server.Sent("attempt")); n != 3 {
			t.Errorf("%d attempts, want 3", n)
		}
		server.Before(nil)
		l := acquire(t, c, t.Name())
		got := make(chan error, 1)
		go func() {
			next, err := c.Acquire(t.Context(), t.Name())
			if err == nil {
				err = next.Release(t.Context())
			}
			got <- err
		}()
		time.Sleep(5 * time.Second)
		server.Before(only("attempt", fail(fakedb.Error("57P03"))))
		server.Forget()
		time.Sleep(time.Hour)
		if n := len(server.Sent("attempt")); n > 240 || n < 100 {
			t.Errorf("%d attempts in an hour's outage, want one every 15 to 30 s", n)
		}
		server.Before(nil)
		time.Sleep(30 * time.Second)
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Errorf("the waiter after an outage of an hour: %v", err)
		}
	})
}

func TestErrorsThatCannotPassEndAWaitAtOnce(t *testing.T) {
	for state, check := range map[fakedb.Error]func(error) bool{
		"42P01": func(err error) bool { return errors.Is(err, pglease.ErrNoSchema) },
		"42703": func(err error) bool { return errors.Is(err, pglease.ErrNoSchema) },
		"42501": func(err error) bool { return errors.As(err, new(*pglease.BackendError)) },
		"28P01": func(err error) bool { return errors.As(err, new(*pglease.BackendError)) },
		"3D000": func(err error) bool { return errors.As(err, new(*pglease.BackendError)) },
	} {
		t.Run(string(state), func(t *testing.T) {
			bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
				c := open(t, db)
				server.Before(only("attempt", fail(fmt.Errorf("wrapped: %w", state))))
				start := time.Now()
				for what, call := range map[string]func() error{
					"TryAcquire": func() error { _, err := c.TryAcquire(t.Context(), t.Name()); return err },
					"Acquire":    func() error { _, err := c.Acquire(t.Context(), t.Name()); return err },
					"Lead": func() error {
						return c.Lead(t.Context(), t.Name(), func(context.Context, *pglease.Lease) error { return nil })
					},
				} {
					if err := call(); !check(err) || errors.Is(err, pglease.ErrHeld) {
						t.Errorf("%s: %v", what, err)
					}
				}
				took(t, "three calls", start, 0)
			})
		})
	}
}

// The answer and the end of the context come in the same instant: the answer counts.
func TestAnAnswerAtTheEndOfTheWaitCounts(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		acquire(t, open(t, db), t.Name())
		ctx, cancel := context.WithCancel(t.Context())
		c := open(t, db, pglease.WithObserver(cancelling(cancel))) // told of the attempt before the wait is
		_, err := c.Acquire(ctx, t.Name())
		mustBe(t, "Acquire", err, context.Canceled)
		mustBe(t, "Acquire", err, pglease.ErrHeld)
	})
}

type cancelling context.CancelFunc

func (f cancelling) Observe(context.Context, pglease.Event) { f() }
