package pglease_test

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/internal/fakedb"
)

// asked are the statements that one try is asked with, and its error.
func asked(t *testing.T, server *fakedb.Server, c *pglease.Client) (names []string, l *pglease.Lease, err error) {
	t.Helper()
	server.Forget()
	l, err = c.TryAcquire(t.Context(), t.Name())
	for _, st := range server.Sent("attempt") {
		names = append(names, st.Name)
	}
	return names, l, err
}

// TestAWrongBeliefCostsAStatementAndNoMore: what a client has seen of a name chooses the statement, and never the answer.
func TestAWrongBeliefCostsAStatementAndNoMore(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c, other := open(t, db), open(t, db)
		step := func(what string, want []string, held bool) *pglease.Lease {
			t.Helper()
			names, l, err := asked(t, server, c)
			if !slices.Equal(names, want) || errors.Is(err, pglease.ErrHeld) != held || (err == nil) == held {
				t.Fatalf("%s: asked with %v, %v; want %v, held %t", what, names, err, want, held)
			}
			return l
		}
		release := func(l *pglease.Lease) {
			t.Helper()
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		release(step("nothing is known", []string{"AcquireLease"}, false))
		release(step("released here", []string{"TakeLease"}, false))
		l := acquire(t, other, t.Name())
		step("released here, taken by another", []string{"TakeLease", "AcquireLease"}, true)
		step("seen held", []string{"ReadLease"}, true)
		release(l)
		release(step("seen held, released since", []string{"ReadLease", "TakeLease"}, false))
		server.Edit(t.Name(), func(*fakedb.Row) *fakedb.Row { return nil })
		release(step("released here, deleted since", []string{"TakeLease", "AcquireLease"}, false))
		time.Sleep(time.Minute)
		l = step("released here long ago", []string{"AcquireLease"}, false)
		step("held by this client", []string{"AcquireLease"}, true)
		server.Edit(t.Name(), func(*fakedb.Row) *fakedb.Row { return nil })
		time.Sleep(time.Millisecond) // no two grants in one microsecond
		mine := step("seen held, deleted since", []string{"ReadLease", "AcquireLease"}, false)
		if mine.Token() <= l.Token() {
			t.Errorf("token %d after %d", mine.Token(), l.Token())
		}
		release(mine)
	})
}

// TestMetadataOfAHolderAreDecodedForEachTerm: what is remembered of a term is neither the caller's to change, nor the next one's.
func TestMetadataOfAHolderAreDecodedForEachTerm(t *testing.T) {
	bubble(t, func(t *testing.T, _ *fakedb.Server, db *sql.DB) {
		c, other := open(t, db), open(t, db)
		for _, value := range []string{"a", "b", strings.Repeat("long", 1000), "a"} {
			l, err := other.TryAcquire(t.Context(), t.Name(), pglease.WithMetadata(map[string]string{"key": value}))
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				_, err := c.TryAcquire(t.Context(), t.Name())
				var held *pglease.HeldError
				if !errors.As(err, &held) || held.Metadata["key"] != value || len(held.Metadata) < 2 {
					t.Fatalf("%v: %v, want the key %q, and who holds it", err, held.Metadata, value)
				}
				clear(held.Metadata)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
