package driver_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/pyworker"
	"github.com/pglease/pglease-go/pglease"
)

// A succession is a lease of a holder whose session is about to end, or has, and who comes next.
type succession struct {
	*env
	t      *testing.T
	k      kind
	holder *pglease.Client
	taker  *pglease.Client
	lease  *pglease.Lease
}

const successionTTL = 3 * time.Second

func newSuccession(t *testing.T, e *env, k kind, opts ...pglease.Option) *succession {
	t.Helper()
	opts = append([]pglease.Option{pglease.WithTTL(successionTTL), pglease.WithSessionCheck(checkEvery)}, opts...)
	s := &succession{env: e, t: t, k: k}
	s.holder = hybridClient(t, e.open(t, k, e.dsn()), opts...)
	s.taker = hybridClient(t, e.hybridPool(t, k, e.dsn()), pglease.WithTTL(successionTTL))
	s.lease = mustTry(t, s.holder, e.schema)
	return s
}

// expires is when the row does, as it stands now.
func (s *succession) expires() time.Time {
	return value[time.Time](s.env, "SELECT expires_at FROM pglease_leases WHERE task_name = $1", s.schema).UTC()
}

// next acquires, and tells whether it was before the row had expired.
func (s *succession) next() (l *pglease.Lease, early bool) {
	s.t.Helper()
	expires := s.expires()
	l = mustAcquire(s.t, s.taker, s.schema)
	defer mustRelease(s.t, l)
	if l.Token() <= s.lease.Token() {
		s.t.Errorf("token %d after %d", l.Token(), s.lease.Token())
	}
	return l, l.AcquiredAt().Before(expires)
}

func (s *succession) mustWaitOut(what string) {
	s.t.Helper()
	if l, early := s.next(); early {
		s.t.Errorf("%s: acquired at %v, before the row had expired", what, l.AcquiredAt())
	}
}

// TestEarlyTakeoverOfADeadSession, but not before the bound that its holder wrote into the row (section 6.3).
func TestEarlyTakeoverOfADeadSession(t *testing.T) {
	each(t, three, func(t *testing.T, e *env, k kind) {
		for _, delay := range []time.Duration{0, 300 * time.Millisecond, time.Second} {
			s := newSuccession(t, e, k, pglease.WithTTL(longTTL), pglease.WithTakeoverDelay(delay))
			ended := value[time.Time](e, "SELECT clock_timestamp()")
			e.terminate(t)
			l, early := s.next()
			if !early {
				t.Errorf("delay %v: the TTL was waited out", delay)
			}
			if took := l.AcquiredAt().Sub(ended); took < delay {
				t.Errorf("taken %v after the session's end, want %v at least", took, delay)
			}
		}
	})
}

// without are the cases in which there is no evidence that counts: the TTL is waited out (H3, H5, S3).
var without = map[string]func(t *testing.T, s *succession){
	"another's term under old evidence H3": func(t *testing.T, s *succession) {
		// Python takes the row over, and touches nothing of ours.
		s.change(t, "UPDATE pglease_leases SET expires_at = clock_timestamp() - interval '10 ms' WHERE task_name = $1", s.schema)
		w := &pyworker.Worker{DB: s.admin, Owner: "python", TTL: successionTTL}
		pythonAcquire(t, w, s.schema)
		if value[sql.NullString](s.env, "SELECT session::text FROM pglease_leases").String == "" {
			t.Error("Python has cleared the evidence: this test shows nothing")
		}
		s.terminate(t)
	},
	"another's term under the owner's own name H3": func(t *testing.T, s *succession) {
		// Of a Python worker's statements, the one by which it begins a term: owner and times, nothing of ours.
		s.change(t, `UPDATE pglease_leases SET acquired_at = clock_timestamp(), heartbeat_at = clock_timestamp(),
			expires_at = clock_timestamp() + interval '3 s' WHERE task_name = $1`, s.schema)
		s.terminate(t)
	},
	"another server run S3": func(t *testing.T, s *succession) {
		s.change(t, `UPDATE pglease_leases SET session = jsonb_set(session, '{server_us}', to_jsonb((session ->> 'server_us')::bigint - 1))
			WHERE task_name = $1`, s.schema)
		s.terminate(t)
	},
	"a session that lives H5": func(t *testing.T, s *succession) {
		lives := conn(t, s.admin) // since before the term
		var pid int
		if err := lives.QueryRowContext(testContext(t), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		s.reacquire(t, s.open(t, s.k, s.dsn()))
		s.exec("UPDATE pglease_leases SET session = jsonb_set(session, '{pid}', to_jsonb($1::int)) WHERE task_name = $2", pid, s.schema)
		if !value[bool](s.env, "SELECT session IS NOT NULL FROM pglease_leases WHERE task_name = $1", s.schema) {
			t.Error("there is no evidence: this test shows nothing")
		}
		s.terminate(t)
	},
	"WithTakeoverDelay(TTL)": func(t *testing.T, s *succession) {
		s.reacquire(t, s.open(t, s.k, s.dsn()), pglease.WithTakeoverDelay(successionTTL))
		s.terminate(t)
	},
	"a holder with one connection": func(t *testing.T, s *succession) {
		one := s.open(t, s.k, s.dsn())
		one.SetMaxOpenConns(1)
		s.reacquire(t, one)
		s.terminate(t)
	},
	"a table-mode holder": func(t *testing.T, s *succession) {
		mustRelease(t, s.lease)
		// Whose heartbeats fail: the row is the server's to keep, or give away.
		c := client(t, s.open(t, s.k, s.dsn()), pglease.WithTTL(successionTTL), pglease.WithHeartbeatInterval(successionTTL*8/10))
		s.lease = mustTry(t, c, s.schema)
		s.exec("UPDATE pglease_leases SET token = token + 1, owner_id = 'table'")
	},
	"a Python holder": func(t *testing.T, s *succession) {
		mustRelease(t, s.lease)
		pythonAcquire(t, &pyworker.Worker{DB: s.admin, Owner: "python", TTL: successionTTL}, s.schema)
	},
}

// reacquire has another client hold the lease.
func (s *succession) reacquire(t *testing.T, d pglease.DB, opts ...pglease.Option) {
	t.Helper()
	mustRelease(t, s.lease)
	opts = append([]pglease.Option{pglease.WithTTL(successionTTL), pglease.WithSessionCheck(checkEvery)}, opts...)
	s.lease = mustTry(t, hybridClient(t, d, opts...), s.schema)
}

func TestTTLIsWaitedOutWithoutEvidence(t *testing.T) {
	noGoroutineLeft(t)
	t.Run("in case of", func(t *testing.T) {
		for name, prepare := range without {
			for _, k := range two {
				t.Run(name+"/"+k.name, func(t *testing.T) {
					t.Parallel()
					s := newSuccession(t, newEnv(t).table(), k)
					prepare(t, s)
					s.mustWaitOut(name)
				})
			}
		}
	})
}

// TestOwnSessionInTheRow (H5): the row names the taker's own session as the holder's, so a pooler is in between.
func TestOwnSessionInTheRow(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		s := newSuccession(t, e, k, pglease.WithTTL(longTTL))
		db := e.hybridPool(t, k, e.dsn())
		given := conn(t, db)
		var pid int
		if err := given.QueryRowContext(testContext(t), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		e.terminate(t)
		lossOf(t, s.lease, pglease.LossSession)
		e.exec("UPDATE pglease_leases SET session = jsonb_set(session, '{pid}', to_jsonb($1::int))", pid)
		c := hybridClient(t, given)
		for range 2 {
			mustBeUnsupported(t, "TryAcquire", second(c.TryAcquire(testContext(t), e.schema)), "pooler", "this very one")
		}
		e.noLock()
		if _, err := c.TryAcquire(testContext(t), e.schema+" other"); err != nil {
			t.Errorf("another name on that connection: %v", err)
		}
	})
}

// TestTryTakesOverEarly, too: a try waits for the bound of notice, and has it.
func TestTryTakesOverEarly(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		s := newSuccession(t, e, k, pglease.WithTTL(longTTL))
		e.terminate(t)
		lossOf(t, s.lease, pglease.LossSession)
		mustRelease(t, mustTry(t, s.taker, e.schema))
	})
}

// TestTryEvictsToo: whoever only ever tries does not starve behind a holder that hangs.
func TestTryEvictsToo(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		s := newSuccession(t, e, k, pglease.WithTTL(longTTL), pglease.WithSessionCheck(time.Hour))
		e.change(t, "UPDATE pglease_leases SET expires_at = clock_timestamp() WHERE task_name = $1", e.schema)
		l, err := s.taker.TryAcquireAny(testContext(t), []string{e.schema})
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, l)
		if err := s.lease.Renew(testContext(t)); !errors.Is(err, pglease.ErrLost) {
			t.Errorf("renewal of an evicted lease: %v", err)
		}
	})
}
