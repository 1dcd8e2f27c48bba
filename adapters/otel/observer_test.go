package pgleaseotel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	pgleaseotel "github.com/pglease/pglease-go/adapters/otel"
	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/pgleasetest"
)

// A telemetry is what one Observer has told.
type telemetry struct {
	t        *testing.T
	reader   *metric.ManualReader
	spans    *tracetest.SpanRecorder
	tracer   trace.Tracer
	observer *pgleaseotel.Observer
}

func newTelemetry(t *testing.T, opts ...pgleaseotel.Option) *telemetry {
	t.Helper()
	tel := &telemetry{t: t, reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(tel.spans))
	tel.tracer = tracers.Tracer("the application")
	opts = append(opts, pgleaseotel.WithTracerProvider(tracers),
		pgleaseotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(tel.reader))))
	var err error
	if tel.observer, err = pgleaseotel.NewObserver(opts...); err != nil {
		t.Fatal(err)
	}
	return tel
}

func (tel *telemetry) client(store *pgleasetest.Memory) *pglease.Client {
	tel.t.Helper()
	client, err := pglease.New(nil, pglease.WithBackend(store), pglease.WithObserver(tel.observer))
	if err != nil {
		tel.t.Fatal(err)
	}
	return client
}

// points returns "attribute=value … : count or sum" of a metric, one for each set of attributes.
func (tel *telemetry) points(name string) (points []string) {
	tel.t.Helper()
	var all metricdata.ResourceMetrics
	if err := tel.reader.Collect(context.Background(), &all); err != nil {
		tel.t.Fatal(err)
	}
	add := func(set attribute.Set, n any) {
		var attrs []string
		for _, kv := range set.ToSlice() {
			attrs = append(attrs, string(kv.Key)+"="+kv.Value.String())
		}
		points = append(points, fmt.Sprintf("%s: %v", strings.Join(attrs, " "), n))
	}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Count)
				}
			}
		}
	}
	slices.Sort(points)
	return points
}

func (tel *telemetry) expect(metric string, want ...string) {
	tel.t.Helper()
	if got := tel.points(metric); !slices.Equal(got, want) {
		tel.t.Errorf("%s:\n%q, want\n%q", metric, got, want)
	}
}

func TestWhatHappensIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := newTelemetry(t)
		store := pgleasetest.NewMemory()
		client := tel.client(store)
		defer func() { _ = client.Close(t.Context()) }()
		ctx := t.Context()

		l, err := client.TryAcquire(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
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
		tel.expect("pglease.lease.count", ": 1")
		store.Lose("a")
		<-l.Done()
		synctest.Wait()
		store.Fail(errors.New("connection refused"))
		if _, err := client.TryAcquire(ctx, "a"); err == nil {
			t.Fatal("acquired without a database")
		}
		store.Fail(nil)
		const db = "db.collection.name=pglease_leases db.operation.name=%s db.system.name=postgresql%s: %d"
		tel.expect("db.client.operation.duration",
			fmt.Sprintf(db, "acquire", " error.type=_OTHER", 1),
			fmt.Sprintf(db, "acquire", " pglease.outcome=granted", 2),
			fmt.Sprintf(db, "acquire", " pglease.outcome=held", 1),
			fmt.Sprintf(db, "release", "", 1))
		tel.expect("pglease.wait.duration", "error.type=held: 1", "pglease.outcome=granted: 1")
		tel.expect("pglease.hold.duration", "pglease.end=lost: 1", "pglease.end=released: 1")
		tel.expect("pglease.lease.count", ": 0")
		tel.expect("pglease.lease.renewals", ": 1", "error.type=lost: 1")
		tel.expect("pglease.lease.losses", "pglease.loss.reason=gone: 1")
	})
}

// Without being asked for, a name makes no series.
func TestCardinalityIsTheUsersChoice(t *testing.T) {
	for _, want := range []struct {
		series int
		opts   []pgleaseotel.Option
	}{
		{1, nil},
		{100, []pgleaseotel.Option{pgleaseotel.WithNameAttribute(nil)}},
		{2, []pgleaseotel.Option{pgleaseotel.WithNameAttribute(func(name string) string { return name[:1] })}},
	} {
		tel := newTelemetry(t, want.opts...)
		client := tel.client(pgleasetest.NewMemory())
		for i := range 100 {
			if _, err := client.TryAcquire(t.Context(), string(rune('a'+i%2))+strings.Repeat("x", i)); err != nil {
				t.Fatal(err)
			}
		}
		for _, metric := range []string{"db.client.operation.duration", "pglease.lease.count"} {
			if n := len(tel.points(metric)); n != want.series {
				t.Errorf("%d series of %s, want %d", n, metric, want.series)
			}
		}
		if err := client.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Spans hang below the caller's, last as long as the thing did, and have no lease name in their own.
func TestSpans(t *testing.T) {
	for _, renewals := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var opts []pgleaseotel.Option
			if renewals {
				opts = append(opts, pgleaseotel.WithRenewalSpans())
			}
			tel := newTelemetry(t, opts...)
			store := pgleasetest.NewMemory()
			client := tel.client(store)
			defer func() { _ = client.Close(t.Context()) }()
			ctx, parent := tel.tracer.Start(t.Context(), "job")

			l, err := client.TryAcquire(ctx, "a")
			if err != nil {
				t.Fatal(err)
			}
			short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			defer cancel()
			if _, err := client.Acquire(short, "a"); !errors.Is(err, pglease.ErrHeld) {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second) // one renewal
			store.Lose("a")
			<-l.Done()
			synctest.Wait()

			var got []string
			for _, s := range tel.spans.Ended() {
				got = append(got, fmt.Sprintf("%s %s %s", s.Name(), s.SpanKind(), s.Status().Code))
				child := s.Parent().SpanID() == parent.SpanContext().SpanID()
				called := !strings.HasPrefix(s.Name(), "renew") && s.Name() != "lease lost"
				if child != called {
					t.Errorf("%s: child of the caller's span: %v, want %v", s.Name(), child, called)
				}
				if !slices.Contains(s.Attributes(), attribute.String("pglease.lease.name", "a")) {
					t.Errorf("%s: %v", s.Name(), s.Attributes())
				}
				if s.Name() == "wait for lease" && s.EndTime().Sub(s.StartTime()) != 500*time.Millisecond {
					t.Errorf("the wait lasted %v", s.EndTime().Sub(s.StartTime()))
				}
			}
			want := []string{
				"acquire pglease_leases client Unset",
				"acquire pglease_leases client Unset", // held is an answer
				"wait for lease internal Error",
				"renew pglease_leases client Unset",
				"lease lost internal Error",
				"renew pglease_leases client Error",
			}
			if !renewals {
				want = slices.Delete(want, 3, 4)
			}
			if !slices.Equal(got, want) {
				t.Errorf("spans\n%q, want\n%q", got, want)
			}
		})
	}
}

// An error's text is not an attribute; its kind is one of a few.
func TestErrorTypesAreFew(t *testing.T) {
	tel := newTelemetry(t)
	for _, err := range []error{
		&pglease.BackendError{Op: "acquire", SQLState: "53300"},
		&pglease.UnsupportedError{Finding: "a pooler", Remedy: "none"},
		fmt.Errorf("joined: %w", pglease.ErrNoSchema), pglease.ErrClosed, pglease.ErrInvalidName,
		context.DeadlineExceeded, context.Canceled, errors.New("secret"),
	} {
		tel.observer.Observe(t.Context(), pglease.Event{Kind: pglease.EventRenew, Name: "a", Start: time.Now(), Err: err})
	}
	tel.expect("pglease.lease.renewals",
		"db.response.status_code=53300 error.type=53300: 1", "error.type=_OTHER: 1", "error.type=canceled: 1", "error.type=closed: 1",
		"error.type=invalid_name: 1", "error.type=no_schema: 1", "error.type=timeout: 1", "error.type=unsupported: 1")
	for _, s := range tel.spans.Ended() {
		if s.Status().Code != codes.Error {
			t.Errorf("%s: %v", s.Name(), s.Status())
		}
	}
}

// However often an end is told, and in whatever order, the count comes back to 0.
func TestEachTermIsCountedOnce(t *testing.T) {
	a, w, l, r := pglease.EventAcquire, pglease.EventWithdraw, pglease.EventLost, pglease.EventRelease
	for _, order := range [][]pglease.EventKind{{a, r}, {a, l}, {a, l, r}, {a, r, r}, {l, a, a, r}, {a, r, r, w}, {l, w, a, r}} {
		tel := newTelemetry(t)
		for _, kind := range order {
			tel.observer.Observe(t.Context(), pglease.Event{Kind: kind, Name: "name", Owner: "me", Token: 1})
		}
		tel.expect("pglease.lease.count", ": 0")
	}
}
