package pgleaseotel_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	pgleaseotel "github.com/pglease/pglease-go/adapters/otel"
	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/pgleasetest"
)

func ExampleNewObserver() {
	ctx := context.Background()
	reader := metric.NewManualReader() // or an exporter's
	observer, err := pgleaseotel.NewObserver(pgleaseotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := pglease.New(nil, pglease.WithBackend(pgleasetest.NewMemory()), // or pglease.New(db, …
		pglease.WithObserver(observer))
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
	defer func() { _ = lease.Release(ctx) }()

	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		fmt.Printf("%s (%s)\n", m.Name, m.Unit)
	}
	// Unordered output:
	// db.client.operation.duration (s)
	// pglease.lease.count ({lease})
}
