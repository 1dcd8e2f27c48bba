package pglease_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease/internal/fakedb"
)

// What Deadline says of a slow grant is also when the trust ends, if no renewal succeeds.
func TestTrustOfASlowGrantEndsOnTime_C4(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		server.After(only("attempt", slow(3*time.Second)))
		c := open(t, db)
		start := time.Now()
		l := acquire(t, c, t.Name())
		took(t, "the grant", start, 3*time.Second)
		server.Before(only("RenewLeases", obey))
		<-l.Done()
		took(t, "Done", start, 29*time.Second)
	})
}
