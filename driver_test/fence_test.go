package driver_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

var levels = []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}

// TestCheckBlocksEveryTakeover, at each isolation level: by a Go try (which does not wait), by Python's FOR UPDATE (which does),
// by ForceRelease (which gives up and names the guard) and by the purge, until the transaction ends. Heartbeats pass. The
// lease ends meanwhile, and a commit after its TTL is safe (3.7).
func TestCheckBlocksEveryTakeover(t *testing.T) {
	guarded(t, func(t *testing.T, e *env, db *sql.DB, gk guardKind) {
		ctx := testContext(t)
		other := client(t, db)
		e.exec("CREATE TABLE work (done boolean)")
		for i, level := range levels {
			l, err := client(t, db).TryAcquire(ctx, level)
			if err != nil {
				t.Fatal(err)
			}
			g, err := gk.check(t, e, db, l, level)
			if err != nil {
				t.Fatalf("%s: check of a held lease: %v", level, err)
			}
			if err := l.Renew(ctx); err != nil {
				t.Errorf("%s: a renewal beside the check: %v", level, err)
			}
			if i == 0 { // the TTL ends in the middle of the transaction, or a release ends the lease
				e.exec("UPDATE pglease_leases SET expires_at = clock_timestamp() WHERE task_name = $1", level)
			} else if err := l.Release(ctx); err != nil {
				t.Errorf("%s: a release beside the check: %v", level, err)
			}

			begun := time.Now()
			_, err = other.TryAcquire(ctx, level)
			var held *pglease.HeldError
			if !errors.As(err, &held) || !held.Expired() || !contains(err, "guarded") {
				t.Errorf("%s: a try beside the check: %v", level, err)
			}
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("%s: the try took %v", level, took)
			}
			if n, err := other.DeleteExpired(ctx, 0); n != 0 || err != nil {
				t.Errorf("%s: the purge beside the check: %d, %v", level, n, err)
			}
			short, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
			_, err = other.ForceRelease(short, level)
			cancel()
			if err == nil || errors.Is(err, pglease.ErrHeld) || !contains(err, "guarded") || !contains(err, e.app) {
				t.Errorf("%s: ForceRelease beside the check: %v; want an error that names the session", level, err)
			}
			took := make(chan error, 1)
			w := e.python(t, "python", time.Hour)
			go func() {
				ok, err := w.Acquire(ctx, level)
				if err == nil && !ok {
					err = errors.New("the lease had expired, and Python did not get it")
				}
				took <- err
			}()
			eventually(t, "Python to wait for the row", func() bool {
				return value[int](e, "SELECT count(*)::int FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND application_name = $1", e.app) == 1
			})
			if err := g.exec("INSERT INTO work VALUES (true)"); err != nil {
				t.Errorf("%s: the guarded write: %v", level, err)
			}
			if err := g.commit(); err != nil {
				t.Errorf("%s: the commit after the end of the lease: %v", level, err)
			}
			if err := await(t, "Python's takeover", took); err != nil {
				t.Errorf("%s: %v", level, err)
			}
		}
		if n := value[int](e, "SELECT count(*)::int FROM work"); n != len(levels) {
			t.Errorf("%d of %d guarded writes", n, len(levels))
		}
	})
}

// TestCheckRefusesATermThatIsOver, whatever ended it.
func TestCheckRefusesATermThatIsOver(t *testing.T) {
	guarded(t, func(t *testing.T, e *env, db *sql.DB, gk guardKind) {
		ctx := testContext(t)
		c, other := client(t, db), client(t, db)
		expire := func(name string) {
			e.exec("UPDATE pglease_leases SET expires_at = clock_timestamp() WHERE task_name = $1", name)
		}
		for name, end := range map[string]func(l *pglease.Lease){
			"released":   func(l *pglease.Lease) { _ = l.Release(ctx) },
			"expired":    func(l *pglease.Lease) { expire(l.Name()) },
			"superseded": func(l *pglease.Lease) { expire(l.Name()); _, _ = other.TryAcquire(ctx, l.Name()) },
			"taken by Python": func(l *pglease.Lease) {
				expire(l.Name())
				pythonAcquire(t, e.python(t, "python", time.Hour), l.Name())
			},
			"forced":  func(l *pglease.Lease) { _, _ = other.ForceRelease(ctx, l.Name()) },
			"deleted": func(l *pglease.Lease) { e.exec("DELETE FROM pglease_leases WHERE task_name = $1", l.Name()) },
		} {
			l, err := c.TryAcquire(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			end(l)
			g, err := gk.check(t, e, db, l, "")
			want := pglease.ErrLost
			if name == "released" && gk.name != "native pgx" { // whose row says no before the handle is asked
				want = pglease.ErrReleased
			}
			if !errors.Is(err, want) {
				t.Errorf("check of a term that was %s: %v", name, err)
			}
			if gk.name != "native pgx" && l.Err() == nil {
				t.Errorf("%s: the lease has not noticed", name)
			}
			if err := g.rollback(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestCheckUnderASnapshotOlderThanTheTTL (F1): the row that such a transaction sees has expired long ago; the live lease passes
// all the same. One that was taken over since is 40001: retry, not ErrLost.
func TestCheckUnderASnapshotOlderThanTheTTL(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		ctx := testContext(t)
		db := e.open(t, k, e.dsn())
		for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
			c := client(t, db, pglease.WithTTL(2*time.Second), pglease.WithHeartbeatInterval(200*time.Millisecond))
			l, err := c.TryAcquire(ctx, level.String())
			if err != nil {
				t.Fatal(err)
			}
			old := func() *sql.Tx {
				tx := begin(t, db, &sql.TxOptions{Isolation: level})
				if _, err := tx.Exec("SELECT count(*) FROM pglease_leases"); err != nil { // takes the snapshot
					t.Fatal(err)
				}
				return tx
			}
			live, superseded := old(), old()
			seen := l.ExpiresAt()
			eventually(t, "the row of the snapshot to expire", func() bool {
				return value[bool](e, "SELECT clock_timestamp() > $1", seen)
			})
			if err := l.CheckTx(ctx, live); err != nil {
				t.Errorf("%v: check of a live lease: %v", level, err)
			}
			if _, err := client(t, db).ForceRelease(canceledSoon(t, 300*time.Millisecond), l.Name()); err == nil {
				t.Errorf("%v: the check holds nobody off", level)
			}
			if err := live.Commit(); err != nil {
				t.Errorf("%v: commit: %v", level, err)
			}

			if _, err := client(t, db).ForceRelease(ctx, l.Name()); err != nil {
				t.Fatal(err)
			}
			if l.Err() != nil { // a heartbeat was quicker
				continue
			}
			err = l.CheckTx(ctx, superseded)
			if errors.Is(l.Err(), pglease.ErrLost) && errors.Is(err, pglease.ErrLost) {
				continue // the same, during the check
			}
			mustBeBackend(t, level.String()+": check after a takeover", err, "40001")
			_ = superseded.Rollback()
		}
	})
}

func canceledSoon(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestRollbackToASavepointUndoesTheCheck (F2): documented, not prevented.
func TestRollbackToASavepointUndoesTheCheck(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		ctx := testContext(t)
		db := e.open(t, k, e.dsn())
		l, err := client(t, db).TryAcquire(ctx, "name")
		if err != nil {
			t.Fatal(err)
		}
		tx := begin(t, db, nil)
		for _, step := range []func() error{
			func() error { _, err := tx.Exec("SAVEPOINT s"); return err },
			func() error { return l.CheckTx(ctx, tx) },
			func() error { _, err := tx.Exec("ROLLBACK TO s"); return err },
		} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := client(t, db).ForceRelease(ctx, "name"); err != nil {
			t.Errorf("after the rollback the lease is still guarded: %v", err)
		}
		if err := l.CheckTx(ctx, tx); !errors.Is(err, pglease.ErrLost) {
			t.Errorf("another check in the same transaction: %v", err)
		}
	})
}

// TestTwoPhaseCommitKeepsTheCheck (F5) until COMMIT PREPARED.
func TestTwoPhaseCommitKeepsTheCheck(t *testing.T) {
	if value[int](newEnv(t), "SELECT current_setting('max_prepared_transactions')::int") == 0 {
		pgserver.NotRun(t, "prepared", "the server allows no prepared transactions")
	}
	guarded(t, func(t *testing.T, e *env, db *sql.DB, gk guardKind) {
		ctx := testContext(t)
		l, err := client(t, db).TryAcquire(ctx, "name")
		if err != nil {
			t.Fatal(err)
		}
		g, err := gk.check(t, e, db, l, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := g.exec("PREPARE TRANSACTION '" + e.schema + "'"); err != nil {
			t.Fatal(err)
		}
		_ = g.rollback() // of a transaction that the session is not in any more
		if err := errors.Join(l.Renew(ctx), l.Release(ctx)); err != nil {
			t.Error(err)
		}
		other := client(t, db)
		if _, err := other.TryAcquire(ctx, "name"); !errors.Is(err, pglease.ErrHeld) {
			t.Errorf("a try beside a prepared transaction: %v", err)
		}
		if _, err := other.ForceRelease(canceledSoon(t, 1500*time.Millisecond), "name"); !contains(err, "guarded") {
			t.Errorf("ForceRelease beside a prepared transaction: %v", err)
		}
		e.exec("COMMIT PREPARED '" + e.schema + "'")
		tryOnce(t, other, "name")
	})
}
