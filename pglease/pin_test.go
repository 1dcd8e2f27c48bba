package pglease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A bareConn is a connection that nothing is sent on.
type bareConn struct{ driver.Conn }

func (bareConn) Close() error { return nil }

type bareConnector struct{ driver.Connector }

func (bareConnector) Connect(context.Context) (driver.Conn, error) { return bareConn{}, nil }

// A connection goes back to its pool when the statement that is under way on it has ended, and no other begins: database/sql crashes
// if a connection is closed while another goroutine begins to use it.
func TestAConnectionGoesBackWhenNobodyUsesIt(t *testing.T) {
	for name, leave := range map[string]func(*hybridBackend, *pinned){
		"given back": func(h *hybridBackend, p *pinned) { h.giveBack(p, nil) },
		"destroyed":  func(h *hybridBackend, p *pinned) { h.destroy(p) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := sql.OpenDB(bareConnector{})
				defer pool.Close()
				h, err := newHybridBackend(newTableBackend(pool, nil, nil), clientOptions{sessionCheck: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				h.expectEnd, h.life = func(Zombie) func() { return func() {} }, t.Context()
				p, err := h.pin(t.Context(), Request{Name: t.Name()})
				if err != nil {
					t.Fatal(err)
				}
				end := make(chan struct{})
				go func() {
					_ = p.use(t.Context(), callTimeout, func(context.Context, statements) error { <-end; return nil }, true)
				}()
				synctest.Wait()
				go leave(h, p)
				synctest.Wait()
				if n := pool.Stats().InUse; n != 1 {
					t.Errorf("while a statement is under way: %d connections in use, want 1", n)
				}
				close(end)
				synctest.Wait()
				if n := pool.Stats().InUse; n != 0 {
					t.Errorf("after it: %d connections in use", n)
				}
				if p.watching != nil {
					t.Error("a connection that is not ours any more is watched")
				}
				err = p.use(t.Context(), callTimeout, func(context.Context, statements) error {
					t.Error("another statement was sent")
					return nil
				}, false)
				if !errors.Is(err, sql.ErrConnDone) {
					t.Errorf("the next use: %v", err)
				}
			})
		})
	}
}

// A renewal that has the connection just as the release gives it back leaves no watch on it.
func TestNoWatchIsLeftOnAGivenConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := sql.OpenDB(bareConnector{})
		defer pool.Close()
		given, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer given.Close()
		h, err := newHybridBackend(newTableBackend(given, nil, nil), clientOptions{sessionCheck: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer givenConns.Delete(given)
		for range 100_000 {
			p, err := h.pin(t.Context(), Request{Name: t.Name()})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_ = p.use(t.Context(), callTimeout, func(context.Context, statements) error { return nil }, true)
			}()
			go h.giveBack(p, nil)
			synctest.Wait()
			if p.watching != nil {
				t.Fatal("a connection that is not ours any more is watched")
			}
		}
	})
}
