package driver_test

import "testing"

// TestTryThatEndsTheHoldersSessionLocksOnce (P4): a client that knew the name as held, finds its row expired, ends the session
// that still has the lock, and waits for it, must not take the lock again: the server counts, and its release would leave one.
func TestTryThatEndsTheHoldersSessionLocksOnce(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		db := e.hybridPool(t, k, e.dsn())
		name := e.schema
		mustTry(t, hybridClient(t, db), name)
		other := hybridClient(t, db)
		mustBeHeldNow(t, other, name)
		e.change(t, "UPDATE pglease_leases SET expires_at = clock_timestamp() WHERE task_name = $1", name)
		mustRelease(t, mustTry(t, other, name))
		e.noLock()
	})
}
