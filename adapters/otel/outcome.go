package pgleaseotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/pglease/pglease-go/pglease"
)

// answer reports whether the error of an attempt is what it asked for: that the lease is held.
func answer(e pglease.Event) bool {
	return e.Kind == pglease.EventAcquire && errors.Is(e.Err, pglease.ErrHeld)
}

// outcome returns the attributes that say how a thing ended.
func outcome(e pglease.Event) []attribute.KeyValue {
	var b *pglease.BackendError
	switch {
	case answer(e):
		return []attribute.KeyValue{outcomeKey.String("held")}
	case e.Err == nil && (e.Kind == pglease.EventAcquire || e.Kind == pglease.EventWait):
		return []attribute.KeyValue{outcomeKey.String("granted")}
	case e.Err == nil:
		return nil
	case errors.As(e.Err, &b) && b.SQLState != "":
		return []attribute.KeyValue{semconv.ErrorTypeKey.String(b.SQLState), semconv.DBResponseStatusCode(b.SQLState)}
	}
	return []attribute.KeyValue{errorType(e.Err)}
}

// errorType has few values, whatever the text of the error. The first that fits counts: a wait that its context has ended is also
// ErrHeld, which says more.
func errorType(err error) attribute.KeyValue {
	for _, known := range []struct {
		err  error
		name string
	}{
		{pglease.ErrHeld, "held"},
		{pglease.ErrLost, "lost"},
		{pglease.ErrNoSchema, "no_schema"},
		{pglease.ErrClosed, "closed"},
		{pglease.ErrInvalidName, "invalid_name"},
		{context.DeadlineExceeded, "timeout"},
		{context.Canceled, "canceled"},
	} {
		if errors.Is(err, known.err) {
			return semconv.ErrorTypeKey.String(known.name)
		}
	}
	if errors.As(err, new(*pglease.UnsupportedError)) {
		return semconv.ErrorTypeKey.String("unsupported")
	}
	return semconv.ErrorTypeOther
}

func reasonOf(err error) string {
	var lost *pglease.LostError
	if errors.As(err, &lost) {
		switch lost.Reason {
		case pglease.LossExpired:
			return "expired"
		case pglease.LossGone:
			return "gone"
		case pglease.LossSession:
			return "session"
		}
	}
	return "unknown"
}
