package main

import (
	"context"
	"log/slog"
	"sync"
)

// beatFailed is the library's message for one heartbeat that failed. In an outage there are many a second.
const beatFailed = "heartbeat failed"

// A row of failed heartbeats is told by its first, and by its last with how many there were, which is kept until the row ends: by
// a renewal, or by a warning or an error of another kind.
type beatRow struct {
	mu     sync.Mutex
	failed int
	last   slog.Record
	next   slog.Handler
}

// keep reports whether a record was kept, and need not be written.
func (b *beatRow) keep(r slog.Record, next slog.Handler) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed++
	b.last, b.next = r, next
	return b.failed > 1
}

// end ends the row, and writes its last record if that was kept.
func (b *beatRow) end(ctx context.Context) {
	b.mu.Lock()
	failed, last, next := b.failed, b.last, b.next
	b.failed, b.last, b.next = 0, slog.Record{}, nil
	b.mu.Unlock() // whoever reads standard error may be slow
	if failed > 1 {
		last = last.Clone()
		last.AddAttrs(slog.Int("failures", failed))
		_ = next.Handle(ctx, last)
	}
}

// A thinHandler leaves out the heartbeats of a row between its first and its last.
type thinHandler struct {
	slog.Handler
	row *beatRow
}

func (h thinHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == beatFailed {
		if h.row.keep(r, h.Handler) {
			return nil
		}
	} else if r.Level >= slog.LevelWarn {
		h.row.end(ctx)
	}
	return h.Handler.Handle(ctx, r)
}

func (h thinHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return thinHandler{h.Handler.WithAttrs(attrs), h.row}
}

func (h thinHandler) WithGroup(name string) slog.Handler {
	return thinHandler{h.Handler.WithGroup(name), h.row}
}
