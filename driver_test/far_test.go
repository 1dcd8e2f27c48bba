package driver_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/faultproxy"
	"github.com/pglease/pglease-go/pglease"
)

// behindProxy returns a pool whose connections go through a proxy.
func behindProxy(t *testing.T, e *env, k kind) (*faultproxy.Proxy, *sql.DB) {
	t.Helper()
	proxy, err := faultproxy.Start(e.dsn())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	return proxy, e.open(t, k, proxy.DSN())
}

// TestHybridFarFromItsDatabase: the pre-flight is many statements, each of which has its own time.
func TestHybridFarFromItsDatabase(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		proxy, db := behindProxy(t, e, k)
		const trip = 200 * time.Millisecond // both ways
		fillIdle(t, db, 2)                  // the pre-flight waits a second for a new one
		if err := proxy.Delay(100); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		ctx, cancel := context.WithTimeout(testContext(t), 4*time.Second)
		defer cancel()
		c := hybridClient(t, db)
		_, err := c.TryAcquire(ctx, e.schema) // it ends with its context; the pre-flight goes on for who comes after
		mustBeBackend(t, "a try with too little time", err, "")
		l := mustTry(t, c, e.schema)
		statements := 23 // of the pre-flight; the two connections and the lease take some more
		if k.name == libpq.name {
			statements *= 2 // it plans each anew
		}
		if took := time.Since(begun); took > time.Duration(statements+29)*trip {
			t.Errorf("the lease came after %v", took)
		}
		mustRelease(t, l)
	})
}

// TestPreparingIsNobodysWait: with lib/pq, a client that has asked often looks at the pool's sessions, on its own time.
func TestPreparingIsNobodysWait(t *testing.T) {
	noGoroutineLeft(t)
	e := newEnv(t).table()
	proxy, db := behindProxy(t, e, libpq)
	c := client(t, db)
	fillIdle(t, db, 8)
	cycles(t, c, "name", 30)
	if err := proxy.Delay(20); err != nil {
		t.Fatal(err)
	}
	for range 20 { // some try of these is the one that makes it look
		ctx, cancel := context.WithTimeout(testContext(t), time.Second) // a look takes 1.8 s
		l, err := c.TryAcquire(ctx, "name")
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, l)
	}
	proxy.Heal()
	eventually(t, "a prepared statement", func() bool {
		cycles(t, c, "name", 1)
		var n int
		err := db.QueryRowContext(testContext(t), "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%pglease_leases%'").Scan(&n)
		return err == nil && n > 0
	})
}

// TestCloseDoesNotWaitForALook: the look is given up when the client is closed.
func TestCloseDoesNotWaitForALook(t *testing.T) {
	noGoroutineLeft(t)
	e := newEnv(t).table()
	proxy, db := behindProxy(t, e, libpq)
	c, err := pglease.New(db)
	if err != nil {
		t.Fatal(err)
	}
	fillIdle(t, db, 8)
	cycles(t, c, "name", 30)
	if err := proxy.Delay(100); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a look", func() bool {
		cycles(t, c, "name", 1)
		return value[int](e, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND query LIKE '%pglease.mark%'", e.app) > 0
	})
	begun := time.Now()
	if err := c.Close(testContext(t)); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 2*time.Second { // forty round trips are 8 s
		t.Errorf("Close took %v", took)
	}
}
