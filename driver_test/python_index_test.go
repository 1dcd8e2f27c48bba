package driver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	zapobserver "go.uber.org/zap/zaptest/observer"

	"github.com/pglease/pglease-go/pglease"
)

// TestEnsureSchemaReportsIndexesThatMakeHeartbeatsDear (D5): the index of the Python package on expires_at is reported with the
// statement that drops it, at each call, and not dropped; the statement works.
func TestEnsureSchemaReportsIndexesThatMakeHeartbeatsDear(t *testing.T) {
	noGoroutineLeft(t)
	for _, k := range two {
		for name, opts := range map[string][]pglease.Option{"table": nil, "hybrid": {pglease.WithHybrid()}} {
			t.Run(k.name+"/"+name, func(t *testing.T) {
				e := newEnv(t)
				core, logs := zapobserver.New(zapcore.WarnLevel)
				c := client(t, e.open(t, k, e.dsn()), append(opts, pglease.WithLogger(zap.New(core)))...)
				statements := func() (all []string) {
					t.Helper()
					if err := c.EnsureSchema(testContext(t)); err != nil {
						t.Fatal(err)
					}
					for _, entry := range logs.TakeAll() {
						all = append(all, fmt.Sprint(entry.ContextMap()["statement"], entry.ContextMap()["columns"]))
					}
					slices.Sort(all)
					return all
				}

				e.exec(pythonTable)
				e.exec("CREATE INDEX idx_pglease_leases_expires_at ON pglease_leases (expires_at)")
				want := []string{"DROP INDEX CONCURRENTLY idx_pglease_leases_expires_at[expires_at]"}
				for range 2 { // the upgrade, and when there is nothing to do
					if got := statements(); !slices.Equal(got, want) {
						t.Errorf("reported %q, want %q", got, want)
					}
				}

				// Others are found by what they mention, whatever their names; those of the other columns do no harm.
				e.exec(`CREATE INDEX "Silent; ones" ON pglease_leases (owner_id) INCLUDE (expires_at) WHERE heartbeat_at IS NOT NULL`)
				e.exec("CREATE INDEX by_hour ON pglease_leases (date_trunc('hour', heartbeat_at AT TIME ZONE 'UTC'))")
				e.exec("CREATE INDEX by_owner ON pglease_leases (owner_id)")
				want = append(want, "DROP INDEX CONCURRENTLY by_hour[heartbeat_at]", `DROP INDEX CONCURRENTLY "Silent; ones"[expires_at heartbeat_at]`)
				slices.Sort(want)
				if got := statements(); !slices.Equal(got, want) {
					t.Errorf("reported %q, want %q", got, want)
				}
				for _, statement := range want {
					statement, _, _ = strings.Cut(statement, "[")
					e.exec(statement)
				}
				if got := statements(); len(got) != 0 {
					t.Errorf("reported %q after the indexes were dropped", got)
				}
				if n := value[int](e, "SELECT count(*)::int FROM pg_index WHERE indrelid = 'pglease_leases'::regclass"); n != 2 {
					t.Errorf("%d indexes left, want the primary key and the one by owner", n)
				}
			})
		}
	}
}
