package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/mattn/go-isatty"
)

// A console is standard error: log entries, and one line below them that is written again and again.
type console struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	line     bool // something stands on the current line
}

func newConsole(f *os.File) *console { return &console{w: f, terminal: isTerminal(f)} }

func isTerminal(f *os.File) bool { return isatty.IsTerminal(f.Fd()) }

// Write writes whole lines, above the progress line.
func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	return c.w.Write(b)
}

// progress shows text on the current line, in place of what stood there; "" takes it away. Only a terminal has it.
func (c *console) progress(text string) {
	if !c.terminal {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	if text != "" {
		fmt.Fprint(c.w, "\x1b[?7l"+text+"\x1b[?7h") // cut at the edge: of a line that goes on below, only the rest could be cleared
		c.line = true
	}
}

func (c *console) clear() {
	if c.line {
		fmt.Fprint(c.w, "\r\x1b[K")
		c.line = false
	}
}

// logger returns the logger to standard error: quiet but for warnings, unless -v says otherwise. Only -vv has every heartbeat that
// failed.
func (a *app) logger() *slog.Logger {
	level := slog.LevelWarn - slog.Level(4*min(a.verbose, 2))
	var h slog.Handler = &humanHandler{w: a.console, level: level, redact: a.hideText}
	if a.logFormat == "json" || a.logFormat != "text" && !a.console.terminal {
		h = slog.NewJSONHandler(a.console, &slog.HandlerOptions{Level: level, ReplaceAttr: a.hideAttr})
	}
	if a.verbose < 2 {
		h = thinHandler{h, &a.row}
	}
	return slog.New(h)
}

func (a *app) hideText(s string) string { return a.database.redact(s) }

func (a *app) hideAttr(_ []string, attr slog.Attr) slog.Attr {
	switch v := attr.Value.Any().(type) {
	case string:
		attr.Value = slog.StringValue(a.hideText(v))
	case error:
		attr.Value = slog.StringValue(a.hideText(v.Error()))
	}
	return attr
}

// humanHandler writes "pglease: warning: message (key value, key value)".
type humanHandler struct {
	w      io.Writer
	level  slog.Level
	redact func(string) string
	attrs  []slog.Attr
}

func (h *humanHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h *humanHandler) WithGroup(string) slog.Handler { return h }

func (h *humanHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = append(append([]slog.Attr(nil), h.attrs...), attrs...)
	return &next
}

func (h *humanHandler) Handle(_ context.Context, r slog.Record) error {
	var details []string
	add := func(attr slog.Attr) bool {
		if text := attr.Value.String(); text != "" && attr.Key != "exit_code" {
			details = append(details, attr.Key+" "+text)
		}
		return true
	}
	for _, attr := range h.attrs {
		add(attr)
	}
	r.Attrs(add)
	text := r.Message
	if len(details) > 0 {
		text += " (" + strings.Join(details, ", ") + ")"
	}
	prefix := "pglease: "
	if r.Level == slog.LevelWarn {
		prefix += "warning: "
	}
	_, err := fmt.Fprintln(h.w, prefix+printable(h.redact(text)))
	return err
}

// printable makes a text one line that cannot move a terminal's cursor: names, owners and metadata are what anybody wrote.
func printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
