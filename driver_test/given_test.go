package driver_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// TestAGivenConnIsUsedInTurn: database/sql lets two goroutines send on one *sql.Conn at once, which drivers answer with errors, and panics.
func TestAGivenConnIsUsedInTurn(t *testing.T) {
	each(t, three, func(t *testing.T, e *env, k kind) {
		db := e.hybridPool(t, k, e.dsn())
		for range sooner(10, 3) { // hybrid looks at the session first
			c := hybridClient(t, conn(t, db))
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					for range 10 {
						if _, err := c.Get(testContext(t), e.schema); err != nil && !errors.Is(err, pglease.ErrNotFound) {
							t.Errorf("Get: %v", err)
						}
					}
				})
			}
			mustRelease(t, mustTry(t, c, e.schema))
			wg.Wait()
		}
		e.exec("DROP TABLE pglease_leases") // and asks for the search_path if there is no table
		c := client(t, conn(t, db))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 10 {
					if _, err := c.Get(testContext(t), e.schema); !errors.Is(err, pglease.ErrNoSchema) {
						t.Errorf("Get without a table: %v", err)
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestWaitingOnAGivenConnThatIsInUse: whoever uses the connection between two slices of a wait does not end it.
func TestWaitingOnAGivenConnThatIsInUse(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		proxy, db := behindProxy(t, e, k)
		holder := mustTry(t, hybridClient(t, e.open(t, k, e.dsn())), e.schema)
		given := conn(t, db)
		c := hybridClient(t, given)
		mustBeHeldNow(t, c, e.schema)
		if err := proxy.Delay(30); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(100 * time.Millisecond):
				}
				if _, err := c.Get(testContext(t), e.schema); err != nil {
					t.Errorf("Get: %v", err)
				}
			}
		})
		defer wg.Wait()
		defer close(done)
		acquired := make(chan error, 1)
		go func() {
			l, err := c.Acquire(testContext(t), e.schema)
			if err == nil {
				err = l.Release(testContext(t))
			}
			acquired <- err
		}()
		slice := func() string {
			return value[string](e, "SELECT COALESCE(max(query_start)::text, '') FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'advisory'", e.app)
		}
		eventually(t, "a wait", func() bool { return slice() != "" })
		first := slice()
		eventually(t, "the next slice of it", func() bool { s := slice(); return s != "" && s != first })
		mustRelease(t, holder)
		if err := <-acquired; err != nil {
			t.Error(err)
		}
	})
}

// TestCloseDuringAFirstLook: a try that Close comes upon says so, and a given connection lives on.
func TestCloseDuringAFirstLook(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		proxy, db := behindProxy(t, e, k)
		fillIdle(t, db, 4)
		given := conn(t, db)
		for _, d := range []pglease.DB{given, db} {
			what := fmt.Sprintf("%T", d)
			since := value[string](e, "SELECT clock_timestamp()::text")
			c, err := pglease.New(d, pglease.WithHybrid())
			if err != nil {
				t.Fatal(err)
			}
			if err := proxy.Delay(100); err != nil {
				t.Fatal(err)
			}
			tried := make(chan error, 1)
			go func() {
				l, err := c.TryAcquire(testContext(t), e.schema)
				if err == nil {
					err = errors.Join(errors.New("granted"), l.Release(testContext(t)))
				}
				tried <- err
			}()
			eventually(t, "a look", func() bool {
				return value[int](e, `SELECT count(*) FROM pg_stat_activity
					WHERE application_name = $1 AND query LIKE '%pglease.mark%' AND query_start > $2::timestamptz`, e.app, since) > 0
			})
			if err := c.Close(testContext(t)); err != nil {
				t.Errorf("%s: Close: %v", what, err)
			}
			if err := <-tried; !errors.Is(err, pglease.ErrClosed) {
				t.Errorf("%s: the try: %v", what, err)
			}
			proxy.Heal()
		}
		if err := given.PingContext(testContext(t)); err != nil {
			t.Errorf("the given connection: %v", err)
		}
		e.noLockAfterward(t)
	})
}
