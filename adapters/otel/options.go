package pgleaseotel

import (
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// An Option configures an Observer.
type Option func(*options)

type options struct {
	meters        metric.MeterProvider
	tracers       trace.TracerProvider
	nameAttribute func(string) string
	renewalSpans  bool
}

// WithMeterProvider has metrics go to p instead of otel.GetMeterProvider. The one of go.opentelemetry.io/otel/metric/noop turns
// them off.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(o *options) { o.meters = p }
}

// WithTracerProvider has spans go to p instead of otel.GetTracerProvider. The one of go.opentelemetry.io/otel/trace/noop turns
// them off.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(o *options) { o.tracers = p }
}

// WithNameAttribute gives every metric an attribute pglease.lease.name with what attribute returns for the name of a lease: the
// name itself, or what a group of names has in common, such as "partition" for "partition-1" to "partition-999". nil stands for the
// name itself. Spans have the name in any case.
func WithNameAttribute(attribute func(name string) string) Option {
	return func(o *options) {
		if attribute == nil {
			attribute = func(name string) string { return name }
		}
		o.nameAttribute = attribute
	}
}

// WithRenewalSpans makes a span for each renewal that succeeded, too: one for each lease and heartbeat.
func WithRenewalSpans() Option {
	return func(o *options) { o.renewalSpans = true }
}
