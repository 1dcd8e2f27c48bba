package driver_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// TestAWrongBeliefIsFoundOut: a client asks with the statement that is cheapest for what it has seen of a name last. Whatever has
// become of the name since, the answer is the true one.
func TestAWrongBeliefIsFoundOut(t *testing.T) {
	for backend, opts := range map[string][]pglease.Option{"table": nil, "hybrid": hybrid()} {
		t.Run(backend, func(t *testing.T) {
			each(t, three, func(t *testing.T, e *env, k kind) {
				c, other := client(t, e.hybridPool(t, k, e.dsn()), opts...), client(t, e.hybridPool(t, k, e.dsn()), opts...)
				python := e.python(t, "python", time.Minute)
				var last int64
				granted := func(what string, c *pglease.Client) *pglease.Lease {
					t.Helper()
					l := mustTry(t, c, e.schema)
					if l.Token() <= last {
						t.Errorf("%s: token %d after %d", what, l.Token(), last)
					}
					last = l.Token()
					return l
				}
				refused := func(what, owner string) {
					t.Helper()
					var held *pglease.HeldError
					if _, err := c.TryAcquire(testContext(t), e.schema); !errors.As(err, &held) || held.Owner != owner {
						t.Fatalf("%s: %v, want held by %q", what, err, owner)
					}
				}
				mustRelease(t, granted("first", c))
				l := granted("taken by another", other)
				refused("released here, taken by another", l.Owner())
				refused("seen held", l.Owner())
				mustRelease(t, l)
				mustRelease(t, granted("seen held, released since", c))
				pythonAcquire(t, python, e.schema)
				refused("released here, taken by Python", "python")
				refused("seen held by Python", "python")
				e.change(t, "DELETE FROM pglease_leases WHERE task_name = $1", e.schema) // as Python releases
				mustRelease(t, granted("seen held, deleted since", c))
				e.change(t, "DELETE FROM pglease_leases WHERE task_name = $1", e.schema)
				mustRelease(t, granted("released here, deleted since", c))
			})
		})
	}
}

// TestADeadHolderThatWasSeenAlive does not keep a worker that tries again and again waiting for the end of its TTL: what the
// worker has seen is no reason not to look at the advisory lock.
func TestADeadHolderThatWasSeenAlive(t *testing.T) {
	each(t, three, func(t *testing.T, e *env, k kind) {
		s := newSuccession(t, e, k, pglease.WithTTL(longTTL))
		for range 2 {
			if _, err := s.taker.TryAcquire(testContext(t), e.schema); !errors.Is(err, pglease.ErrHeld) {
				t.Fatalf("while the holder lives: %v", err)
			}
		}
		e.terminate(t)
		var l *pglease.Lease
		eventually(t, "a try that succeeds", func() bool {
			var err error
			l, err = s.taker.TryAcquire(testContext(t), e.schema)
			if err != nil && !errors.Is(err, pglease.ErrHeld) {
				t.Fatal(err)
			}
			return err == nil
		})
		if !l.AcquiredAt().Before(s.lease.ExpiresAt()) {
			t.Errorf("acquired at %v, not before the TTL had ended at %v", l.AcquiredAt(), s.lease.ExpiresAt())
		}
		mustRelease(t, l)
	})
}
