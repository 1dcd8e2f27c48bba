package driver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

// TestSessionTimeZonesDoNotMatter (C3): all times come out in UTC and are the same instants, also around the hours in which
// a zone's clocks are set back.
func TestSessionTimeZonesDoNotMatter(t *testing.T) {
	each(t, three, func(t *testing.T, e *env, k kind) {
		ctx := testContext(t)
		reader := client(t, e.open(t, k, e.dsn()))
		for _, zone := range []string{"Asia/Kolkata", "America/New_York"} {
			c := client(t, e.open(t, k, e.dsn(pgserver.Param("timezone", zone))))
			l, err := c.TryAcquire(ctx, zone)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Renew(ctx); err != nil {
				t.Fatal(err)
			}
			mine, err := c.Get(ctx, zone)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := reader.Get(ctx, zone)
			if err != nil {
				t.Fatal(err)
			}
			if mine.AcquiredAt != theirs.AcquiredAt || mine.ExpiresAt != theirs.ExpiresAt || mine.HeartbeatAt != theirs.HeartbeatAt {
				t.Errorf("%s: %+v; in the server's own zone: %+v", zone, mine, theirs)
			}
			if mine.AcquiredAt != l.AcquiredAt() || mine.ExpiresAt != l.ExpiresAt() {
				t.Errorf("%s: the lease says %v and %v, the row %v and %v", zone, l.AcquiredAt(), l.ExpiresAt(), mine.AcquiredAt, mine.ExpiresAt)
			}
			for _, at := range []time.Time{mine.AcquiredAt, mine.ExpiresAt, mine.HeartbeatAt, mine.ObservedAt, l.AcquiredAt(), l.ExpiresAt(), l.Deadline()} {
				if at.Location() != time.UTC {
					t.Errorf("%s: %v is not in UTC", zone, at)
				}
			}
			if left := mine.Remaining(); left > longTTL || left < longTTL-patience {
				t.Errorf("%s: %v remain of %v", zone, left, longTTL)
			}
			// The same wall clock time twice, before and after New York's clocks were set back; and the hour that was left out.
			for i, instant := range []string{"2024-11-03T05:30:00Z", "2024-11-03T06:30:00Z", "2024-03-10T06:59:59.5Z", "2024-03-10T07:00:00.25Z"} {
				want, err := time.Parse(time.RFC3339Nano, instant)
				if err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprintf("%s %d", zone, i)
				e.exec(`INSERT INTO pglease_leases (task_name, owner_id, acquired_at, expires_at, heartbeat_at)
					VALUES ($1, 'python', $2::timestamptz, $2::timestamptz + interval '1 hour', $2)`, name, instant)
				info, err := c.Get(ctx, name)
				if err != nil || info.AcquiredAt != want || info.ExpiresAt != want.Add(time.Hour) {
					t.Errorf("%s: %+v, %v; want %v and an hour later", name, info, err, want)
				}
			}
		}
	})
}

// TestStricterDefaultIsolation (D3): contention causes no 40001 that anybody sees, and exclusion holds.
func TestStricterDefaultIsolation(t *testing.T) {
	noGoroutineLeft(t)
	for _, level := range []string{"repeatable%20read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			e := newEnv(t).table()
			e.exec(ring)
			fightFor(t, e, 3*time.Second, 8, 0, "&default_transaction_isolation="+level)
		})
	}
}

// TestTimeoutsOfARoleDoNoHarm (T6): short statements pass, an idle session that the server has ended is replaced.
func TestTimeoutsOfARoleDoNoHarm(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		name, as := e.role()
		e.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON pglease_leases TO " + name)
		settings := []string{"statement_timeout = '2s'", "lock_timeout = '100ms'", "idle_in_transaction_session_timeout = '100ms'"}
		if value[int](e, "SELECT current_setting('server_version_num')::int") >= 140000 {
			settings = append(settings, "idle_session_timeout = '300ms'")
		}
		for _, s := range settings {
			e.exec("ALTER ROLE " + name + " SET " + s)
		}
		ctx := testContext(t)
		c := client(t, e.open(t, k, e.dsn(as)), pglease.WithTTL(6*time.Second), pglease.WithHeartbeatInterval(time.Second))
		l, err := c.TryAcquire(ctx, "name")
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "heartbeats on sessions that the server ends", func() bool {
			return l.Err() != nil || l.ExpiresAt().Sub(l.AcquiredAt()) > 9*time.Second
		})
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a try that meets no dead session", func() bool {
			_, err := c.TryAcquire(ctx, "name")
			return errors.Is(err, pglease.ErrHeld)
		})
		// The role's lock_timeout ends the one wait that a try can have.
		h, err := e.python(t, "python", time.Hour).Begin(ctx, "locked")
		if err != nil {
			t.Fatal(err)
		}
		defer h.Rollback()
		eventually(t, "the error of lock_timeout", func() bool {
			_, err := c.TryAcquire(ctx, "locked")
			var b *pglease.BackendError
			return errors.As(err, &b) && b.SQLState == "55P03"
		})
	})
}

// TestTransactionOnAGivenConn (P11): a grant in somebody's transaction is none, and leaves no ghost, however that ends.
func TestTransactionOnAGivenConn(t *testing.T) {
	each(t, three, func(t *testing.T, e *env, k kind) {
		ctx := testContext(t)
		db := e.open(t, k, e.dsn())
		other := client(t, db)
		for _, end := range []string{"ROLLBACK", "COMMIT"} {
			given := conn(t, db)
			exec := func(statement string) {
				t.Helper()
				if _, err := given.ExecContext(ctx, statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			c := client(t, given)
			exec("BEGIN")
			mustNameTheTransaction(t, "acquire", second(c.TryAcquire(ctx, end)))
			if _, err := c.ForceRelease(ctx, "held by another "+end); !errors.Is(err, pglease.ErrNotFound) {
				t.Errorf("force release of nothing: %v", err)
			}
			exec(end)
			tryOnce(t, other, end)
			tryOnce(t, c, end) // and the connection is as good as before

			l, err := other.TryAcquire(ctx, "forced "+end)
			if err != nil {
				t.Fatal(err)
			}
			exec("BEGIN")
			_, err = c.ForceRelease(ctx, l.Name())
			mustNameTheTransaction(t, "force release", err)
			exec("ROLLBACK")
			if err := l.Renew(ctx); err != nil {
				t.Errorf("after a forced release that was rolled back: %v", err)
			}

			// An aborted transaction.
			exec("BEGIN")
			_, _ = given.ExecContext(ctx, "SELECT 1/0")
			_, err = c.TryAcquire(ctx, end)
			if err == nil || !contains(err, "open transaction") {
				t.Errorf("acquire in an aborted transaction: %v", err)
			}
			exec("ROLLBACK")
			tryOnce(t, c, end)
		}
	})
}

func second[T any](_ T, err error) error { return err }

func mustNameTheTransaction(t *testing.T, what string, err error) {
	t.Helper()
	var unsupported *pglease.UnsupportedError
	if !errors.As(err, &unsupported) || !contains(err, "open transaction") {
		t.Errorf("%s: %v (%T); want an *UnsupportedError that names the open transaction", what, err, err)
	}
}

// TestHeartbeatInsideATransaction (P11): it counts for nothing, since a rollback takes it back: the lease is lost at its trust
// deadline, before another can have it.
func TestHeartbeatInsideATransaction(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		ctx := testContext(t)
		db := e.open(t, k, e.dsn())
		given := conn(t, db)
		c := client(t, given, pglease.WithTTL(3*time.Second), pglease.WithSafetyMargin(time.Second))
		l, err := c.TryAcquire(ctx, "name")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := given.ExecContext(ctx, "BEGIN"); err != nil {
			t.Fatal(err)
		}
		granted := l.ExpiresAt()
		mustNameTheTransaction(t, "renew", l.Renew(ctx))
		if err := l.Release(canceled()); err == nil {
			t.Error("a release inside a transaction was taken for one")
		} else if !contains(err, "open transaction") {
			t.Errorf("release: %v", err)
		}
		await(t, "the end of the lease", l.Done())
		if _, err := given.ExecContext(ctx, "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		if row := value[time.Time](e, "SELECT expires_at FROM pglease_leases"); !row.Equal(granted) {
			t.Errorf("the row expires at %v, was granted until %v", row, granted)
		}

		// The same without a release: beats fail until the trust ends.
		l, err = c.Acquire(ctx, "name")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := given.ExecContext(ctx, "BEGIN"); err != nil {
			t.Fatal(err)
		}
		granted = l.ExpiresAt()
		await(t, "the loss of the lease", l.Done())
		var lost *pglease.LostError
		if !errors.As(l.Err(), &lost) || lost.Reason != pglease.LossExpired || !contains(lost, "open transaction") {
			t.Errorf("lost because of: %v", l.Err())
		}
		if _, err := given.ExecContext(ctx, "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		left := value[float64](e, "SELECT extract(epoch FROM $1::timestamptz - clock_timestamp())::float8", granted)
		if left <= 0 {
			t.Errorf("the lease was trusted until %v s after the server's expiry", -left)
		}
	})
}

// canceled returns a context that has ended.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
