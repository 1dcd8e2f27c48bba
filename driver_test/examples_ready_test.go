package driver_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pglease/pglease-go/pglease"
)

// leading answers 200 while this replica leads, and 503 while it does not: for the readiness probe of a service that has traffic
// for its leader only. It asks no database: the lease and the clock are enough.
func leading(task *pglease.Task) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		lease := task.Lease()
		if lease == nil {
			http.Error(w, "standing by", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "leading, term %d\n", lease.Token())
	})
}

// One of two replicas is ready; when it loses its lease, the other is, and never both.
func TestReadinessFollowsTheLease(t *testing.T) {
	noGoroutineLeft(t)
	for _, k := range two {
		for _, mode := range modes {
			t.Run(k.name+"/"+mode.name, func(t *testing.T) {
				e := newEnv(t).table()
				ctx, cancel := context.WithCancel(testContext(t))
				defer cancel()
				var handlers []http.Handler
				var tasks []*pglease.Task
				for range 2 {
					c := client(t, e.open(t, k, e.dsn()), mode.opts...)
					task := c.Go(ctx, "leader", func(ctx context.Context, _ *pglease.Lease) error {
						<-ctx.Done() // lead
						return nil
					}, pglease.Campaign())
					tasks = append(tasks, task)
					handlers = append(handlers, leading(task))
				}
				ready := func() (n, who int) {
					for i, h := range handlers {
						w := httptest.NewRecorder()
						h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ready", nil))
						if w.Code == http.StatusOK {
							n, who = n+1, i
						}
					}
					return n, who
				}
				var first int
				eventually(t, "a leader", func() bool { n, who := ready(); first = who; return n == 1 })
				tasks[first].Stop()
				eventually(t, "the other one as leader", func() bool {
					n, who := ready()
					if n > 1 {
						t.Errorf("%d leaders", n)
					}
					return n == 1 && who != first
				})
				cancel()
				for _, task := range tasks {
					if err := task.Wait(); err != nil {
						t.Error(err)
					}
				}
				if n, _ := ready(); n != 0 {
					t.Errorf("%d leaders after the end", n)
				}
			})
		}
	}
}
