package driver_test

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// advisoryKey is the key of a name, as the Python package computes it.
func advisoryKey(name string) int64 {
	sum := sha256.Sum256([]byte(name))
	return int64(binary.BigEndian.Uint64(sum[:8]) &^ (1 << 63))
}

// TestReleaseUnlocksLast (H1): as long as the row is not written, whoever waits for the lock must not get it.
func TestReleaseUnlocksLast(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		l := mustTry(t, hybridClient(t, e.hybridPool(t, k, e.dsn())), e.schema)
		holder := e.holderPID()
		someone := begin(t, e.admin, nil)
		if _, err := someone.ExecContext(testContext(t), "SELECT FROM pglease_leases WHERE task_name = $1 FOR UPDATE", e.schema); err != nil {
			t.Fatal(err)
		}
		released := make(chan error, 1)
		go func() { released <- l.Release(testContext(t)) }()
		eventually(t, "the release to wait for the row", func() bool {
			return value[bool](e, "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)", holder)
		})
		if pid := e.holderPID(); pid != holder {
			t.Errorf("session %d has the lock while session %d has not written the row yet", pid, holder)
		}
		if err := someone.Rollback(); err != nil {
			t.Error(err)
		}
		if err := await(t, "the release", released); err != nil {
			t.Error(err)
		}
	})
}

// TestHandOverWaitsForTheCommit (H1): the last holder's commit follows its unlock, by a while on a slow disk. Whoever was
// handed the lock waits for the row, and has the lease with that very attempt.
func TestHandOverWaitsForTheCommit(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		const commitTakes = 700 * time.Millisecond
		ctx := testContext(t)
		failed := make(chan error, 100)
		c := hybridClient(t, e.hybridPool(t, k, e.dsn()), pglease.WithObserver(observer(func(ev pglease.Event) {
			if ev.Kind == pglease.EventAcquire && ev.Err != nil {
				failed <- ev.Err
			}
		})))
		mustRelease(t, mustTry(t, c, e.schema))
		e.exec("UPDATE pglease_leases SET expires_at = expires_at + interval '1 hour' WHERE task_name = $1", e.schema)
		holder := conn(t, e.admin)
		if _, err := holder.ExecContext(ctx, "SELECT pg_advisory_lock($1)", advisoryKey(e.schema)); err != nil {
			t.Fatal(err)
		}
		got := e.waits(t, c)
		tx, err := holder.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err1 := tx.ExecContext(ctx, "UPDATE pglease_leases SET expires_at = clock_timestamp() WHERE task_name = $1", e.schema)
		_, err2 := tx.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", advisoryKey(e.schema))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		time.Sleep(commitTakes)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		mustRelease(t, await(t, "the hand-over", got))
		close(failed)
		var refused int
		for err := range failed {
			if refused++; refused > 1 || !errors.Is(err, pglease.ErrHeld) { // the try before the wait
				t.Errorf("an attempt failed: %v", err)
			}
		}
	})
}
