package pgleaseprometheus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	pgleaseprometheus "github.com/pglease/pglease-go/adapters/prometheus"
	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/pgleasetest"
)

func newClient(t *testing.T, store *pgleasetest.Memory, c *pgleaseprometheus.Collector) *pglease.Client {
	t.Helper()
	client, err := pglease.New(nil, pglease.WithBackend(store), pglease.WithObserver(c))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func expect(t *testing.T, c prometheus.Collector, want string, names ...string) {
	t.Helper()
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// The names and texts are what Prometheus' own linter asks for.
func TestNamesFollowTheConventions(t *testing.T) {
	c := pgleaseprometheus.NewCollector(pgleaseprometheus.WithNameLabel(nil))
	everything(c)
	problems, err := testutil.CollectAndLint(c)
	if err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if n := testutil.CollectAndCount(c); n != 10 {
		t.Errorf("%d series, want one of each of 10 metrics", n)
	}
	if err := prometheus.NewPedanticRegistry().Register(c); err != nil {
		t.Error(err)
	}
}

func everything(c *pgleaseprometheus.Collector) {
	for kind := pglease.EventAcquire; kind <= pglease.EventWithdraw; kind++ {
		c.Observe(context.Background(), pglease.Event{Kind: kind, Name: "name", Owner: "me", Token: 1, Duration: time.Second})
	}
}

func TestWhatHappensIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pgleaseprometheus.NewCollector()
		store := pgleasetest.NewMemory()
		client := newClient(t, store, c)
		defer func() { _ = client.Close(t.Context()) }()
		ctx := t.Context()

		l, err := client.TryAcquire(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.TryAcquire(ctx, "a"); !errors.Is(err, pglease.ErrHeld) {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
		defer cancel()
		if _, err := client.Acquire(short, "a"); !errors.Is(err, pglease.ErrHeld) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) // one renewal
		if err := l.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if l, err = client.Acquire(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		expect(t, c, `
# HELP pglease_leases_held Leases held now.
# TYPE pglease_leases_held gauge
pglease_leases_held 1
`, "pglease_leases_held")
		store.Lose("a")
		<-l.Done()
		synctest.Wait()
		store.Fail(errors.New("connection refused"))
		if _, err := client.TryAcquire(ctx, "a"); err == nil {
			t.Fatal("acquired without a database")
		}
		store.Fail(nil)
		expect(t, c, `
# HELP pglease_leases_held Leases held now.
# TYPE pglease_leases_held gauge
pglease_leases_held 0
# HELP pglease_losses_total Leases lost before their release.
# TYPE pglease_losses_total counter
pglease_losses_total{reason="expired"} 0
pglease_losses_total{reason="gone"} 1
pglease_losses_total{reason="session"} 0
# HELP pglease_releases_total Releases of a lease.
# TYPE pglease_releases_total counter
pglease_releases_total{outcome="released"} 1
# HELP pglease_renewals_total Attempts to renew a lease.
# TYPE pglease_renewals_total counter
pglease_renewals_total{outcome="lost"} 1
pglease_renewals_total{outcome="renewed"} 1
`, "pglease_leases_held", "pglease_losses_total", "pglease_releases_total", "pglease_renewals_total")
		if n := testutil.CollectAndCount(c, "pglease_hold_duration_seconds"); n != 2 {
			t.Errorf("%d kinds of end, want released and lost", n)
		}
		if n := testutil.CollectAndCount(c, "pglease_wait_duration_seconds"); n != 2 {
			t.Errorf("%d kinds of wait, want granted and held", n)
		}
		if n := testutil.CollectAndCount(c, "pglease_acquires_total"); n != 3 {
			t.Errorf("%d kinds of attempt, want granted, held and error", n)
		}
	})
}

// Without being asked for, a name makes no series.
func TestCardinalityIsTheUsersChoice(t *testing.T) {
	for _, want := range []struct {
		series int
		opts   []pgleaseprometheus.Option
	}{
		{1, nil},
		{100, []pgleaseprometheus.Option{pgleaseprometheus.WithNameLabel(nil)}},
		{2, []pgleaseprometheus.Option{pgleaseprometheus.WithNameLabel(func(name string) string { return name[:1] })}},
	} {
		c := pgleaseprometheus.NewCollector(want.opts...)
		client := newClient(t, pgleasetest.NewMemory(), c)
		for i := range 100 {
			if _, err := client.TryAcquire(t.Context(), string(rune('a'+i%2))+strings.Repeat("x", i)); err != nil {
				t.Fatal(err)
			}
		}
		for _, metric := range []string{"pglease_acquires_total", "pglease_acquire_duration_seconds", "pglease_leases_held"} {
			if n := testutil.CollectAndCount(c, metric); n != want.series {
				t.Errorf("%d series of %s, want %d", n, metric, want.series)
			}
		}
		if err := client.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// However often an end is told, and in whatever order, the gauge comes back to 0.
func TestEachTermIsCountedOnce(t *testing.T) {
	const none = `
# HELP pglease_leases_held Leases held now.
# TYPE pglease_leases_held gauge
pglease_leases_held 0
`
	a, w, l, r := pglease.EventAcquire, pglease.EventWithdraw, pglease.EventLost, pglease.EventRelease
	for _, order := range [][]pglease.EventKind{{a, r}, {a, l}, {a, l, r}, {a, r, r}, {l, a}, {r, w}, {l, w, r}, {w}} {
		c := pgleaseprometheus.NewCollector()
		for range 2 { // nothing is remembered of the first time
			for _, kind := range order {
				c.Observe(t.Context(), pglease.Event{Kind: kind, Name: "name", Owner: "me", Token: 1})
			}
		}
		expect(t, c, none, "pglease_leases_held")
	}
}

func TestBuckets(t *testing.T) {
	c := pgleaseprometheus.NewCollector(pgleaseprometheus.WithBuckets(2, 1, 1))
	everything(c)
	expect(t, c, `
# HELP pglease_wait_duration_seconds How long calls waited for a lease.
# TYPE pglease_wait_duration_seconds histogram
pglease_wait_duration_seconds_bucket{outcome="granted",le="1"} 1
pglease_wait_duration_seconds_bucket{outcome="granted",le="2"} 1
pglease_wait_duration_seconds_bucket{outcome="granted",le="+Inf"} 1
pglease_wait_duration_seconds_sum{outcome="granted"} 1
pglease_wait_duration_seconds_count{outcome="granted"} 1
`, "pglease_wait_duration_seconds")
}
