package driver_test

import (
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// modes are the two ways to hold a lease, as options of a client. Hybrid with lib/pq pings, so its bounds leave room for a loaded
// machine.
var modes = []struct {
	name string
	opts []pglease.Option
}{
	{"table", nil},
	{"hybrid", hybrid(pglease.WithSessionCheck(500*time.Millisecond), pglease.WithTakeoverDelay(2*time.Second))},
}
