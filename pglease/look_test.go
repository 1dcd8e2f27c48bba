package pglease_test

import (
	"database/sql"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/internal/fakedb"
)

// askOften has a client look at the sessions of its pool, if it may.
func askOften(t *testing.T, c *pglease.Client) {
	t.Helper()
	for range 40 {
		if err := acquire(t, c, t.Name()).Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCloseLeavesALook: a client that asks often looks at its pool's sessions in the background (New). Close does not wait for a driver that
// hangs on that; it is reported.
func TestCloseLeavesALook(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		end := make(chan struct{})
		server.Before(only("DescribeSession", deaf(end)))
		c, err := pglease.New(db)
		if err != nil {
			t.Fatal(err)
		}
		askOften(t, c)
		synctest.Wait()
		if n := len(server.Sent("DescribeSession")); n != 1 {
			t.Fatalf("%d looks, want 1 that hangs", n)
		}
		begun := time.Now()
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		took(t, "Close", begun, 100*time.Millisecond) // the grace for a driver
		time.Sleep(time.Minute)
		if zombies := c.Zombies(); len(zombies) != 1 || zombies[0].Kind != pglease.ZombieCall {
			t.Errorf("zombies: %+v", zombies)
		}
		close(end)
		synctest.Wait()
	})
}

// TestALookLeavesAPoolSomeConnections: two for itself, one for the caller, and one for whoever wants one meanwhile.
func TestALookLeavesAPoolSomeConnections(t *testing.T) {
	for limit, looks := range map[int]bool{1: false, 2: false, 3: false, 4: false, 5: true, 0: true} { // one is kept for the heartbeats, from 3 on
		bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
			db.SetMaxOpenConns(limit)
			c := open(t, db)
			kept := acquire(t, c, t.Name()+" kept")
			if err := kept.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			askOften(t, c)
			synctest.Wait()
			if n := len(server.Sent("DescribeSession")); n > 0 != looks {
				t.Errorf("with a limit of %d: %d looks", limit, n)
			}
		})
	}
}
