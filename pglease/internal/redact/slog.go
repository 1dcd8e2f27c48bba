package redact

import (
	"context"
	"log/slog"
	"slices"

	"go.uber.org/zap/zapcore"
)

// SlogCore returns a core that writes entries to h: a *zap.Logger over it logs
// where a *slog.Logger does. It redacts nothing; wrap it with [Core].
//
// Levels keep their distance: debug, info, warn and error are slog's, dpanic,
// panic and fatal follow at 12, 16 and 20. A namespace becomes a group, as does an
// object; objects inside arrays become maps. The logger's name is the attribute
// "logger", the stack "stacktrace", both outside all groups. A nil h logs nothing.
func SlogCore(h slog.Handler) zapcore.Core {
	if h == nil {
		return zapcore.NewNopCore()
	}
	return &slogCore{h: h}
}

type slogCore struct {
	h slog.Handler
	// open are the namespaces opened by With, outermost first, with their
	// attributes. They are not given to h as groups: what Write adds outside
	// of them could then not get out.
	open []namespace
}

func slogLevel(level zapcore.Level) slog.Level { return slog.Level(level) * 4 }

func (c *slogCore) Enabled(level zapcore.Level) bool {
	return c.h.Enabled(context.Background(), slogLevel(level))
}

func (c *slogCore) Check(ent zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(ent.Level) {
		return ce.AddCore(ent, c)
	}
	return ce
}

func (c *slogCore) With(fields []zapcore.Field) zapcore.Core {
	enc := c.encode(fields)
	clone := &slogCore{h: c.h, open: enc.open[1:]}
	if attrs := enc.open[0].attrs; len(attrs) > 0 {
		clone.h = c.h.WithAttrs(attrs)
	}
	return clone
}

func (c *slogCore) Write(ent zapcore.Entry, fields []zapcore.Field) error {
	var pc uintptr
	if ent.Caller.Defined {
		// zap keeps the address of the call, slog wants that of the return,
		// and takes one off itself.
		pc = ent.Caller.PC + 1
	}
	rec := slog.NewRecord(ent.Time, slogLevel(ent.Level), ent.Message, pc)
	if ent.LoggerName != "" {
		rec.AddAttrs(slog.String("logger", ent.LoggerName))
	}
	rec.AddAttrs(c.encode(fields).attrs()...)
	if ent.Stack != "" {
		rec.AddAttrs(slog.String("stacktrace", ent.Stack))
	}
	return c.h.Handle(context.Background(), rec)
}

func (c *slogCore) Sync() error { return nil }

// encode adds fields to the open namespaces. Other loggers share those, so their
// attributes are clipped: an append copies.
func (c *slogCore) encode(fields []zapcore.Field) *attrEncoder {
	enc := &attrEncoder{open: make([]namespace, 1, len(c.open)+1)}
	for _, ns := range c.open {
		enc.open = append(enc.open, namespace{ns.name, slices.Clip(ns.attrs)})
	}
	for i := range fields {
		fields[i].AddTo(enc)
	}
	return enc
}
