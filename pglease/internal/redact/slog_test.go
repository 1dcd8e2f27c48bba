package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func slogLogger(level slog.Level, opts ...zap.Option) (*zap.Logger, *bytes.Buffer) {
	var out bytes.Buffer
	h := slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level, AddSource: true})
	return zap.New(Core(SlogCore(h), nil), opts...), &out
}

func TestSlogCoreMapsLevels(t *testing.T) {
	for zapLevel, want := range map[zapcore.Level]slog.Level{
		zap.DebugLevel: slog.LevelDebug, zap.InfoLevel: slog.LevelInfo, zap.WarnLevel: slog.LevelWarn,
		zap.ErrorLevel: slog.LevelError, zap.DPanicLevel: 12, zap.PanicLevel: 16, zap.FatalLevel: 20,
	} {
		if got := slogLevel(zapLevel); got != want {
			t.Errorf("%v: %v, want %v", zapLevel, got, want)
		}
	}
	log, out := slogLogger(slog.LevelWarn)
	log.Info("no")
	log.Warn("yes")
	if log.Core().Enabled(zap.InfoLevel) || strings.Contains(out.String(), "no") || !strings.Contains(out.String(), `"level":"WARN","msg":"yes"`) {
		t.Error(out)
	}
}

func TestSlogCoreWritesWhatZapWould(t *testing.T) {
	log, out := slogLogger(slog.LevelDebug)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	log.Named("lease").With(zap.Int("a", 1), zap.Namespace("outer"), zap.String("b", leaky)).With(zap.Int8("c", 3), zap.Namespace("inner"), zap.Time("t", at)).
		Error("m", zap.Error(errors.New(leaky)), zap.Duration("d", time.Second), zap.Float32("f", 0.1), zap.Float64("nan", math.NaN()),
			zap.Complex128("i", 1i), zap.Binary("raw", []byte("ab")), zap.Any("map", map[string]any{"password": "hunter2", "n": 1}),
			zap.Object("o", zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
				enc.AddUint64("u", math.MaxUint64)
				enc.OpenNamespace("n")
				enc.AddString("dsn", leaky)
				return nil
			})),
			zap.Complex64s("list", []complex64{1}), zap.Errors("errors", []error{errors.New(leaky)}), zap.Float64s("inf", []float64{math.Inf(1), 2}))
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err, out)
	}
	delete(got, slog.TimeKey)
	want := map[string]any{
		"level": "ERROR", "msg": "m", "logger": "lease", "a": 1.0,
		"outer": map[string]any{
			"b": tight, "c": 3.0,
			"inner": map[string]any{
				"t": "2026-01-02T03:04:05Z", "error": tight, "d": 1e9, "f": 0.1, "nan": "NaN", "i": "(0+1i)", "raw": "YWI=",
				"map":  map[string]any{"password": Mask, "n": 1.0},
				"o":    map[string]any{"u": float64(math.MaxUint64), "n": map[string]any{"dsn": tight}},
				"list": []any{"(1+0i)"}, "errors": []any{map[string]any{"error": tight}}, "inf": []any{"+Inf", 2.0},
			},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %v\nwant %v", got, want)
	}
}

func TestSlogCoreReportsTheCallersLine(t *testing.T) {
	log, out := slogLogger(slog.LevelDebug, zap.AddCaller(), zap.AddStacktrace(zap.DebugLevel))
	log.Info("m", zap.Namespace("n"), zap.Int("a", 1))
	var got struct {
		Source struct {
			Function, File string
			Line           int
		}
		Stacktrace string
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(got.Source.Function, "TestSlogCoreReportsTheCallersLine") || !strings.HasSuffix(got.Source.File, "slog_test.go") ||
		!strings.Contains(got.Stacktrace, "slog_test.go:"+jsonOf(got.Source.Line)) {
		t.Errorf("%+v", got)
	}
}

func TestSlogCoreLoggersShareNothing(t *testing.T) {
	log, out := slogLogger(slog.LevelDebug)
	parent := log.With(zap.Namespace("n"), zap.Int("a", 1))
	first, second := parent.With(zap.Int("b", 2)), parent.With(zap.Int("c", 3))
	first.Info("m")
	second.Info("m")
	if got := out.String(); !strings.Contains(got, `"n":{"a":1,"b":2}`) || !strings.Contains(got, `"n":{"a":1,"c":3}`) {
		t.Error(got)
	}
}

func TestSlogCoreReturnsTheHandlersError(t *testing.T) {
	core := SlogCore(slog.NewJSONHandler(brokenSink{}, nil))
	if err := core.Write(zapcore.Entry{}, nil); err == nil {
		t.Error("no error")
	}
	if err := core.Sync(); err != nil {
		t.Error(err)
	}
}

// The handlers' own rules hold for what SlogCore gives them (no time when there is none, and so on).
func TestSlogCoreGivesHandlersWhatTheyExpect(t *testing.T) {
	var out bytes.Buffer
	log := zap.New(SlogCore(slog.NewJSONHandler(&out, nil)))
	log.Info("msg", zap.String("a", "b"), zap.Namespace("G"), zap.String("c", "d"))
	log.With(zap.String("a", "b"), zap.Namespace("G")).Info("msg", zap.Namespace("H"), zap.String("e", "f"))
	log.Info("msg", zap.Namespace("empty"))
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	for i, want := range []string{`"a":"b","G":{"c":"d"}}`, `"a":"b","G":{"H":{"e":"f"}}}`, `"msg":"msg"}`} {
		if !bytes.HasSuffix(lines[i], []byte(want)) {
			t.Errorf("got %s, want …%s", lines[i], want)
		}
	}
}
