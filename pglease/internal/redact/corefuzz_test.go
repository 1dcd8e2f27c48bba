package redact

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

var address = regexp.MustCompile(`0x[0-9a-f]+`)

// everywhere logs text and password in every field type to every kind of sink,
// and returns all that came out.
func everywhere(r *Redactor, text, password string) string {
	var jsonOut, consoleOut, slogOut, textOut syncBuffer
	cfg := zap.NewDevelopmentEncoderConfig()
	cfg.TimeKey = ""
	observed, logs := observer.New(zap.DebugLevel)
	drop := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	log := zap.New(Core(zapcore.NewTee(
		zapcore.NewCore(zapcore.NewJSONEncoder(cfg), &jsonOut, zap.DebugLevel),
		zapcore.NewCore(zapcore.NewConsoleEncoder(cfg), &consoleOut, zap.DebugLevel),
		observed,
		SlogCore(slog.NewJSONHandler(&slogOut, &slog.HandlerOptions{ReplaceAttr: drop})),
		SlogCore(slog.NewTextHandler(&textOut, &slog.HandlerOptions{ReplaceAttr: drop})),
	), r))
	fields := []zap.Field{
		zap.String("string", text), zap.ByteString("bytestring", []byte(text)),
		zap.Error(fmt.Errorf("x: %w", errors.New(text))), zap.NamedError("verbose", verbose{"short", text}), zap.NamedError("group", group{errors.New(text)}),
		zap.Stringer("stringer", stringer{text}), zap.Strings("strings", []string{text}), zap.Errors("errors", []error{errors.New(text)}),
		zap.Any("struct", struct {
			Text, Password string
			Inner          map[string]any
		}{text, password, map[string]any{"pwd": password, "list": []string{text}}}),
		zap.Object("object", configObject{text}), zap.Inline(zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
			enc.AddString("inline", text)
			enc.AddString("dbPassword", password)
			return nil
		})),
		zap.String("password", password), zap.Any("PGPASSWORD", password), zap.Strings("passwords", []string{password}),
		zap.Namespace("ns"), zap.String("string", text),
	}
	log.Info(text, fields...)
	log.With(fields...).Named("n").Warn("with")
	var dump strings.Builder
	for _, entry := range logs.All() {
		entry.Time = time.Time{}
		fmt.Fprintf(&dump, "%+v\n%v\n", entry, entry.ContextMap())
	}
	return jsonOut.String() + consoleOut.String() + slogOut.String() + textOut.String() + address.ReplaceAllString(dump.String(), "")
}

func FuzzCore(f *testing.F) {
	var known sync.Map
	for i := range forms {
		for j := i % 4; j < len(seedPasswords); j += 4 { // FuzzString has them all
			f.Add(uint8(i), seedPasswords[j])
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, password string) {
		n %= uint8(len(forms))
		form := forms[n]
		r := New(password)
		if form.fits(password) {
			r = nil // then the patterns do it alone
		}
		out := everywhere(r, form.text(password), password)
		// What the same entries contain without the password is no secret.
		surroundings, ok := known.Load(n)
		if !ok {
			surroundings = []string{everywhere(nil, form.text(Mask), Mask), everywhere(nil, form.text(""), "")}
			known.Store(n, surroundings)
		}
		if part := shown(out, password, surroundings.([]string)...); part != "" {
			i := max(0, strings.Index(out, part))
			t.Errorf("%s: %q survives in …%q…", form.name, part, out[max(0, i-200):min(len(out), i+100)])
		}
	})
}
