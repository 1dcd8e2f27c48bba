package pgleaseotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/dbconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/pglease/pglease-go/pglease"
)

const (
	scope = "github.com/pglease/pglease-go/adapters/otel"
	table = "pglease_leases"
)

// The attributes for which the conventions have no name.
const (
	nameKey    = attribute.Key("pglease.lease.name")
	tokenKey   = attribute.Key("pglease.lease.token")
	outcomeKey = attribute.Key("pglease.outcome")
	endKey     = attribute.Key("pglease.end")
	reasonKey  = attribute.Key("pglease.loss.reason")
	zombieKey  = attribute.Key("pglease.zombie.kind")
)

// An Observer turns the events of one client or several into metrics and spans. It may be used by several goroutines at once.
type Observer struct {
	nameAttribute func(string) string // nil: metrics have no name
	renewalSpans  bool
	tracer        trace.Tracer
	terms         terms

	operation                 dbconv.ClientOperationDuration
	wait, hold                metric.Float64Histogram
	held                      metric.Int64UpDownCounter
	renewals, losses, zombies metric.Int64Counter
}

var _ pglease.Observer = (*Observer)(nil)

// NewObserver returns an Observer. Give it to pglease.New by pglease.WithObserver.
//
// Defaults: the providers of otel.GetMeterProvider and otel.GetTracerProvider, no lease name in metrics, no spans for renewals that
// succeeded; see WithMeterProvider, WithTracerProvider, WithNameAttribute, WithRenewalSpans.
//
// The error is that of a meter that refuses an instrument.
func NewObserver(opts ...Option) (*Observer, error) {
	var set options
	for _, opt := range opts {
		if opt != nil {
			opt(&set)
		}
	}
	if set.meters == nil {
		set.meters = otel.GetMeterProvider()
	}
	if set.tracers == nil {
		set.tracers = otel.GetTracerProvider()
	}
	o := &Observer{
		nameAttribute: set.nameAttribute,
		renewalSpans:  set.renewalSpans,
		tracer:        set.tracers.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
	}
	return o, o.instruments(set.meters.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL)))
}

func (o *Observer) instruments(m metric.Meter) error {
	short := metric.WithExplicitBucketBoundaries(.001, .005, .01, .05, .1, .5, 1, 5, 10) // what the conventions advise
	long := metric.WithExplicitBucketBoundaries(.1, 1, 10, 60, 600, 3600, 6*3600, 24*3600, 7*24*3600)
	var errs [7]error
	o.operation, errs[0] = dbconv.NewClientOperationDuration(m, short)
	o.wait, errs[1] = m.Float64Histogram("pglease.wait.duration", long, metric.WithUnit("s"),
		metric.WithDescription("How long calls waited for a lease."))
	o.hold, errs[2] = m.Float64Histogram("pglease.hold.duration", long, metric.WithUnit("s"),
		metric.WithDescription("For how long leases had been held when they ended."))
	o.held, errs[3] = m.Int64UpDownCounter("pglease.lease.count", metric.WithUnit("{lease}"),
		metric.WithDescription("Leases held now."))
	o.renewals, errs[4] = m.Int64Counter("pglease.lease.renewals", metric.WithUnit("{renewal}"),
		metric.WithDescription("Attempts to renew a lease."))
	o.losses, errs[5] = m.Int64Counter("pglease.lease.losses", metric.WithUnit("{lease}"),
		metric.WithDescription("Leases lost before their release."))
	o.zombies, errs[6] = m.Int64Counter("pglease.zombies", metric.WithUnit("{zombie}"),
		metric.WithDescription("Things that should have ended and had not for 30 s."))
	return errors.Join(errs[:]...)
}

// Observe implements pglease.Observer.
func (o *Observer) Observe(ctx context.Context, e pglease.Event) {
	var name []attribute.KeyValue
	if o.nameAttribute != nil {
		name = []attribute.KeyValue{nameKey.String(o.nameAttribute(e.Name))}
	}
	with := func(attrs ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributes(append(attrs, name...)...)
	}
	switch e.Kind {
	case pglease.EventAcquire, pglease.EventRelease, pglease.EventWithdraw:
		attrs := append(outcome(e), semconv.DBOperationName(e.Kind.String()), semconv.DBCollectionName(table))
		o.operation.Record(ctx, e.Duration.Seconds(), dbconv.SystemNamePostgreSQL, append(attrs, name...)...)
		o.count(ctx, e, with)
	case pglease.EventWait:
		o.wait.Record(ctx, e.Duration.Seconds(), with(outcome(e)...))
	case pglease.EventRenew:
		o.renewals.Add(ctx, 1, with(outcome(e)...))
	case pglease.EventLost:
		o.losses.Add(ctx, 1, with(reasonKey.String(reasonOf(e.Err))))
		o.count(ctx, e, with)
	case pglease.EventZombie:
		o.zombies.Add(ctx, 1, with(zombieKey.String(string(e.Zombie))))
	}
	o.trace(ctx, e)
}

// count keeps the number of leases held, and how long they were.
func (o *Observer) count(ctx context.Context, e pglease.Event, with func(...attribute.KeyValue) metric.MeasurementOption) {
	end := "released"
	switch e.Kind {
	case pglease.EventAcquire:
		if e.Err == nil && o.terms.begin(e) {
			o.held.Add(ctx, 1, with())
		}
		return
	case pglease.EventWithdraw:
		o.terms.withdraw(e)
		return
	case pglease.EventLost:
		end = "lost"
	}
	if o.terms.end(e) {
		o.held.Add(ctx, -1, with())
		o.hold.Record(ctx, e.Held.Seconds(), with(endKey.String(end)))
	}
}

// trace makes a span of what has happened.
func (o *Observer) trace(ctx context.Context, e pglease.Event) {
	span, kind := e.Kind.String()+" "+table, trace.SpanKindClient
	attrs := []attribute.KeyValue{nameKey.String(e.Name)}
	switch e.Kind {
	case pglease.EventWait:
		span, kind = "wait for lease", trace.SpanKindInternal
	case pglease.EventLost:
		span, kind = "lease lost", trace.SpanKindInternal
		attrs = append(attrs, reasonKey.String(reasonOf(e.Err)))
	case pglease.EventZombie:
		return // it has no end yet
	case pglease.EventRenew:
		if e.Err == nil && !o.renewalSpans {
			return
		}
		fallthrough
	default:
		attrs = append(attrs, semconv.DBSystemNamePostgreSQL, semconv.DBOperationName(e.Kind.String()), semconv.DBCollectionName(table))
	}
	if e.Token != 0 {
		attrs = append(attrs, tokenKey.Int64(e.Token))
	}
	start, end := e.Start, e.Start.Add(e.Duration)
	if start.IsZero() { // a loss has no duration
		start = time.Now()
		end = start
	}
	_, s := o.tracer.Start(ctx, span, trace.WithSpanKind(kind), trace.WithTimestamp(start),
		trace.WithAttributes(append(attrs, outcome(e)...)...))
	if e.Err != nil && !answer(e) {
		s.SetStatus(codes.Error, e.Err.Error())
	}
	s.End(trace.WithTimestamp(end))
}
