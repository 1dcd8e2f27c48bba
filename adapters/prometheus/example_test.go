package pgleaseprometheus_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	pgleaseprometheus "github.com/pglease/pglease-go/adapters/prometheus"
	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/pgleasetest"
)

func ExampleNewCollector() {
	ctx := context.Background()
	collector := pgleaseprometheus.NewCollector()
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(collector)
	client, err := pglease.New(nil, pglease.WithBackend(pgleasetest.NewMemory()), // or pglease.New(db, …
		pglease.WithObserver(collector))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "partition-7")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = client.TryAcquire(ctx, "partition-7")
	show(registry, "pglease_acquires_total", "pglease_leases_held")
	_ = lease.Release(ctx)
	// Output:
	// # HELP pglease_acquires_total Attempts to acquire a lease.
	// # TYPE pglease_acquires_total counter
	// pglease_acquires_total{outcome="granted"} 1
	// pglease_acquires_total{outcome="held"} 1
	// # HELP pglease_leases_held Leases held now.
	// # TYPE pglease_leases_held gauge
	// pglease_leases_held 1
}

// A thousand partitions share the label "partition"; what is not a partition has its own name.
func ExampleWithNameLabel() {
	ctx := context.Background()
	collector := pgleaseprometheus.NewCollector(pgleaseprometheus.WithNameLabel(func(name string) string {
		kind, _, _ := strings.Cut(name, "-")
		return kind
	}))
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	client, err := pglease.New(nil, pglease.WithBackend(pgleasetest.NewMemory()), pglease.WithObserver(collector))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(ctx) }()

	leases, err := client.AcquireAll(ctx, []string{"partition-7", "partition-8", "leader"})
	if err != nil {
		fmt.Println(err)
		return
	}
	show(registry, "pglease_leases_held")
	_ = leases.Release(ctx)
	// Output:
	// # HELP pglease_leases_held Leases held now.
	// # TYPE pglease_leases_held gauge
	// pglease_leases_held{name="leader"} 1
	// pglease_leases_held{name="partition"} 2
}

// show prints some of what a scrape would get.
func show(g prometheus.Gatherer, names ...string) {
	families, err := g.Gather()
	if err != nil {
		fmt.Println(err)
	}
	for _, f := range families {
		for _, name := range names {
			if f.GetName() == name {
				_, _ = expfmt.MetricFamilyToText(os.Stdout, f)
			}
		}
	}
}
