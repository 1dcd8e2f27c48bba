package pglease_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/internal/fakedb"
)

// Each signal implies those before it: whoever sees a later one finds the earlier ones done.
func TestALossIsToldInOrder(t *testing.T) {
	for range 50 {
		bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
			seen := new(events)
			c := open(t, db, pglease.WithObserver(seen))
			lost := make(chan struct{})
			l := acquire(t, c, t.Name(), pglease.WithOnLost(func(l *pglease.Lease, err error) {
				defer close(lost)
				select {
				case <-l.Context().Done():
				default:
					t.Error("OnLost runs before the context is cancelled")
				}
				if !errors.Is(err, pglease.ErrLost) || l.Err() != err || context.Cause(l.Context()) != err { //nolint:errorlint // the same one
					t.Errorf("OnLost was told %v; Err is %v, the cause %v", err, l.Err(), context.Cause(l.Context()))
				}
			}))
			derived, cancel := context.WithTimeout(l.Context(), time.Hour)
			defer cancel()
			watched := make(chan struct{}, 3)
			go func() {
				<-l.Done()
				if l.Err() == nil {
					t.Error("Done is closed before Err is set")
				}
				watched <- struct{}{}
			}()
			for _, ctx := range []context.Context{l.Context(), derived} {
				go func() {
					<-ctx.Done()
					select {
					case <-l.Done():
					default:
						t.Error("the context is cancelled before Done is closed")
					}
					if !errors.Is(context.Cause(ctx), pglease.ErrLost) || ctx.Err() != context.Canceled { //nolint:errorlint // as context.Context demands
						t.Errorf("the context's Err is %v, its cause %v", ctx.Err(), context.Cause(ctx))
					}
					watched <- struct{}{}
				}()
			}
			server.Edit(t.Name(), func(*fakedb.Row) *fakedb.Row { return nil })
			if err := l.Renew(t.Context()); !errors.Is(err, pglease.ErrLost) {
				t.Errorf("Renew: %v", err)
			}
			<-lost
			for range cap(watched) {
				<-watched
			}
			synctest.Wait()
			if told := seen.of(pglease.EventLost); len(told) != 1 {
				t.Errorf("%d events of one loss", len(told))
			}
		})
	}
}

func TestOnLostMayCallReleaseAndClose_O7(t *testing.T) {
	for _, end := range []string{"expired", "gone"} {
		t.Run(end, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
				c := open(t, db)
				done := make(chan error, 2)
				l := acquire(t, c, t.Name(), pglease.WithOnLost(func(l *pglease.Lease, _ error) {
					done <- l.Release(context.Background())
					done <- c.Close(context.Background())
				}))
				if end == "gone" {
					server.Edit(t.Name(), func(*fakedb.Row) *fakedb.Row { return nil })
				} else {
					server.Before(only("RenewLeases", fail(fakedb.Error("57P01"))))
				}
				mustBe(t, "Release", <-done, pglease.ErrLost)
				if err := <-done; err != nil {
					t.Errorf("Close: %v", err)
				}
				mustBe(t, "Err", l.Err(), pglease.ErrLost)
				if err := l.Release(t.Context()); err != nil {
					t.Errorf("the second release: %v", err)
				}
			})
		})
	}
}

func TestAPanicOfOnLostIsRecoveredAndLogged_O7(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		core, logs := observer.New(zapcore.DebugLevel)
		c := open(t, db, pglease.WithLogger(zap.New(core)))
		other := acquire(t, c, t.Name()+"/other")
		l := acquire(t, c, t.Name(), pglease.WithOnLost(func(*pglease.Lease, error) { panic("password=hunter22") }))
		server.Edit(t.Name(), func(*fakedb.Row) *fakedb.Row { return nil })
		<-l.Done()
		synctest.Wait()
		if other.Err() != nil {
			t.Errorf("the other lease: %v", other.Err())
		}
		panics := logs.FilterMessageSnippet("panicked").All()
		if len(panics) != 1 || panics[0].Level != zapcore.ErrorLevel || panics[0].ContextMap()["name"] != t.Name() {
			t.Fatalf("log entries about the panic: %v", panics)
		}
		for _, entry := range logs.All() {
			for _, field := range entry.Context {
				enc := zapcore.NewMapObjectEncoder()
				field.AddTo(enc)
				for _, v := range enc.Fields {
					if s, ok := v.(string); ok && strings.Contains(s, "hunter22") {
						t.Errorf("a secret in the log: %s", s)
					}
				}
			}
		}
	})
}

func TestAReleaseIsNoLoss(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		seen := new(events)
		c := open(t, db, pglease.WithObserver(seen))
		l := acquire(t, c, t.Name(), pglease.WithOnLost(func(*pglease.Lease, error) { t.Error("OnLost ran") }))
		time.Sleep(5 * time.Second)
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if l.Err() != pglease.ErrReleased || context.Cause(l.Context()) != pglease.ErrReleased { //nolint:errorlint // exactly this one
			t.Errorf("Err %v, cause %v", l.Err(), context.Cause(l.Context()))
		}
		if told := seen.of(pglease.EventRelease); len(told) != 1 || told[0].Held != 5*time.Second || told[0].Token != l.Token() || told[0].Owner != l.Owner() {
			t.Errorf("events of the release: %+v", told)
		}
		if len(seen.of(pglease.EventLost)) > 0 {
			t.Error("a release was observed as a loss")
		}
	})
}

func TestTheContextKeepsValuesAndSurvivesItsAcquire_T4(t *testing.T) {
	type key struct{}
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "kept"), 5*time.Second)
		defer cancel()
		l, err := c.Acquire(ctx, t.Name())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if l.Err() != nil || l.Context().Err() != nil || l.Context().Value(key{}) != "kept" {
			t.Errorf("after the acquire's deadline: %v, %v, value %v", l.Err(), l.Context().Err(), l.Context().Value(key{}))
		}
		if _, there := l.Context().Deadline(); there {
			t.Error("the lease's context has a deadline")
		}
	})
}
