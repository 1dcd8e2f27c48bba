package driver_test

import (
	"fmt"
	"testing"

	"github.com/pglease/pglease-go/driver_test/pgserver"
)

// TestPoolerConformance runs the suite that every backend must pass through a real PgBouncer. In transaction mode, where no
// connection has a session of its own, the table backend passes and hybrid refuses (S1).
func TestPoolerConformance(t *testing.T) {
	noGoroutineLeft(t)
	for _, mode := range []string{"session", "transaction"} {
		for _, b := range []backend{tableBackend, hybridBackend} {
			for _, k := range two {
				t.Run(fmt.Sprintf("%s/%s/%s", mode, b.name, k.name), func(t *testing.T) {
					e := newDatabaseEnv(t).table()
					// A hybrid lease has a session to itself, and the suite holds many at once.
					dsn := e.bouncer(t, mode, pgserver.WithSetting("default_pool_size", "90")).DSN(e.database, e.pooled(k, mode)...)
					if mode == "transaction" && b.name == hybridBackend.name {
						refusesHybrid(t, e, hybridClient(t, e.open(t, k, dsn)), "pooler", "table backend")
						return
					}
					conform(t, e, b, k, false, dsn)
				})
			}
		}
	}
}

// pooled are the parameters with which a driver works through a pooler: in transaction mode the next message may go to
// another session, and a driver must not count on what it prepared in the last one.
func (e *env) pooled(k kind, mode string) []pgserver.DSNOption {
	opts := []pgserver.DSNOption{pgserver.Param("application_name", e.app)}
	if mode == "transaction" {
		one := map[string][2]string{
			libpq.name:     {"binary_parameters", "yes"},
			pgxStdlib.name: {"default_query_exec_mode", "exec"},
		}[k.name]
		opts = append(opts, pgserver.Param(one[0], one[1]))
	}
	return opts
}
