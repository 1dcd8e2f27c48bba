package redact

import (
	"errors"
	"strings"
	"sync"

	"go.uber.org/zap/zapcore"
)

// Core returns a core that hands entries and fields to inner with every secret
// hidden: in message, logger name and stack, in keys, and in whatever a field
// prints. Whole values are masked where the key names a password ("password",
// "PGPASSWORD", "dbPass"), numbers included; other numbers, bools, times and
// durations pass as they are. What may print more than it shows (errors,
// Stringers, values to be reflected, marshalers) reaches inner only as redacted
// text or as a function, so that no sink can unwrap it; an error in a field
// therefore has no causes for errors.Is and errors.As.
//
// inner decides about levels and sampling, and hooks added to it run as without Core.
// A nil inner logs nothing; a nil r hides what patterns find. Only what is logged is
// redacted: a logger's Panic still panics with the message it was given.
func Core(inner zapcore.Core, r *Redactor) zapcore.Core {
	if inner == nil {
		inner = zapcore.NewNopCore()
	}
	return &core{inner: inner, r: r}
}

type core struct {
	inner zapcore.Core
	r     *Redactor
	all   bool // inside a namespace that is named like a password
}

func (c *core) Enabled(level zapcore.Level) bool { return c.inner.Enabled(level) }

// Level lets zapcore.LevelOf see through the wrapper.
func (c *core) Level() zapcore.Level { return zapcore.LevelOf(c.inner) }

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	clean, all := c.r.fields(fields, c.all)
	return &core{inner: c.inner.With(clean), r: c.r, all: all}
}

// Check asks inner with an entry of its own. Adding c itself and calling inner's
// Write later would skip inner's sampling, its hooks, and the levels of the
// cores in a tee; letting inner add itself to ce would skip the redaction.
func (c *core) Check(ent zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.inner.Enabled(ent.Level) {
		return ce
	}
	clean := c.entry(ent)
	inner := c.inner.Check(clean, nil)
	if inner == nil {
		return ce
	}
	w := writers.Get().(*writer)
	w.core, w.inner, w.raw, w.clean = c, inner, ent.Message, clean.Message
	return ce.AddCore(ent, w)
}

func (c *core) Write(ent zapcore.Entry, fields []zapcore.Field) error {
	clean, _ := c.r.fields(fields, c.all)
	return c.r.plainError(c.inner.Write(c.entry(ent), clean))
}

func (c *core) Sync() error { return c.r.plainError(c.inner.Sync()) }

func (c *core) entry(ent zapcore.Entry) zapcore.Entry {
	ent.Message = c.r.String(ent.Message)
	ent.LoggerName = c.r.String(ent.LoggerName)
	ent.Stack = c.r.String(ent.Stack)
	return ent
}

var writers = sync.Pool{New: func() any { return new(writer) }}

// A writer writes one entry to the cores that inner chose for it.
type writer struct {
	*core
	inner      *zapcore.CheckedEntry
	raw, clean string // the message, so that it is redacted once
}

func (w *writer) Write(ent zapcore.Entry, fields []zapcore.Field) error {
	c, inner := w.core, w.inner
	if inner == nil {
		return nil // written before: zap reports that itself
	}
	fields, _ = c.r.fields(fields, c.all)
	// The logger adds caller and stack after Check, so inner's entry lacks them.
	if ent.Message == w.raw {
		ent.Message = w.clean
		ent.LoggerName, ent.Stack = c.r.String(ent.LoggerName), c.r.String(ent.Stack)
	} else {
		ent = c.entry(ent)
	}
	*w = writer{}
	writers.Put(w)

	failures := sinks.Get().(*sink)
	inner.Entry, inner.ErrorOutput = ent, failures
	inner.Write(fields...)
	err := failures.take()
	sinks.Put(failures)
	return c.r.plainError(err)
}

var sinks = sync.Pool{New: func() any { return new(sink) }}

// A sink turns what a checked entry reports as text back into an error, so that
// the outer entry can report it where its logger says.
type sink struct{ text strings.Builder }

func (s *sink) Write(p []byte) (int, error) { return s.text.Write(p) }
func (s *sink) Sync() error                 { return nil }

func (s *sink) take() error {
	if s.text.Len() == 0 {
		return nil
	}
	text := strings.TrimSpace(s.text.String())
	s.text.Reset()
	if _, cause, ok := strings.Cut(text, " write error: "); ok {
		text = cause // the outer entry writes this prefix again
	}
	return errors.New(text)
}
