package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

type syncBuffer struct{ bytes.Buffer }

func (*syncBuffer) Sync() error { return nil }

func jsonLogger(r *Redactor, opts ...zap.Option) (*zap.Logger, *syncBuffer) {
	var out syncBuffer
	enc := zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "msg", NameKey: "logger", StacktraceKey: "stack", EncodeDuration: zapcore.StringDurationEncoder})
	return zap.New(Core(zapcore.NewCore(enc, &out, zap.DebugLevel), r), opts...), &out
}

type (
	stringer      struct{ s string }
	panicStringer struct{}
	verbose       struct{ short, long string }
	group         []error
	nilError      struct{ s string }
	panicError    struct{}
	configObject  struct{ dsn string }
	badMarshaler  struct{}
)

func (s stringer) String() string    { return s.s }
func (panicStringer) String() string { panic("password=hunter2") }
func (v verbose) Error() string      { return v.short }
func (v verbose) Format(f fmt.State, _ rune) {
	if f.Flag('+') {
		fmt.Fprint(f, v.long)
		return
	}
	fmt.Fprint(f, v.short)
}
func (g group) Error() string                     { return errors.Join(g...).Error() }
func (g group) Errors() []error                   { return g }
func (e *nilError) Error() string                 { return e.s }
func (panicError) Error() string                  { panic("password=hunter2") }
func (badMarshaler) MarshalJSON() ([]byte, error) { return nil, errors.New("bad password=hunter2") }
func (c configObject) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	enc.AddString("dsn", c.dsn)
	enc.AddInt("port", 5432)
	enc.AddInt("password", 12345)
	_ = enc.AddReflected("raw", map[string]any{"password": "hunter2", "dsn": c.dsn})
	_ = enc.AddArray("list", zapcore.ArrayMarshalerFunc(func(a zapcore.ArrayEncoder) error {
		a.AppendString(c.dsn)
		a.AppendInt(7)
		a.AppendByteString([]byte(c.dsn))
		_ = a.AppendReflected([]string{c.dsn})
		return a.AppendObject(zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
			enc.OpenNamespace("inner")
			enc.AddByteString("dsn", []byte(c.dsn))
			return nil
		}))
	}))
	return errors.New("cannot marshal " + c.dsn)
}

const (
	leaky = "host=db password=hunter2 port=1"
	tight = "host=db password=xxxxx port=1"
)

func TestCoreRedactsEveryFieldType_X2(t *testing.T) {
	var nilStringer *stringer
	var nilErr *nilError
	pointed := "password=hunter2"
	type config struct {
		Host     string
		Password string
		Port     int
		hidden   string
		DSN      string `json:"dsn"`
		Skipped  string `json:"-"`
		Raw      []byte
	}
	for _, tt := range []struct {
		name  string
		field zap.Field
		want  string // the JSON behind {"msg":"m",
	}{
		{"string", zap.String("k", leaky), `"k":"` + tight + `"`},
		{"string pointer", zap.Stringp("k", &pointed), `"k":"password=xxxxx"`},
		{"strings", zap.Strings("k", []string{leaky, "b"}), `"k":["` + tight + `","b"]`},
		{"byte string", zap.ByteString("k", []byte(leaky)), `"k":"` + tight + `"`},
		{"binary", zap.Binary("k", []byte("password=hunter2")), `"k":"cGFzc3dvcmQ9eHh4eHg="`},
		{"error", zap.Error(errors.New(leaky)), `"error":"` + tight + `"`},
		{"joined errors", zap.Error(errors.Join(errors.New("a"), errors.New(leaky))), `"error":"a\n` + tight + `"`},
		{"wrapped error", zap.NamedError("k", fmt.Errorf("x: %w", errors.New(leaky))), `"k":"x: ` + tight + `"`},
		{"verbose error", zap.NamedError("k", verbose{"short", "long " + leaky}), `"k":"short","kVerbose":"long ` + tight + `"`},
		{"error group", zap.NamedError("k", group{errors.New(leaky), nil, verbose{"s", leaky}, panicError{}}[:3]),
			`"k":"` + tight + `\ns","kCauses":[{"error":"` + tight + `"},{"error":"s","errorVerbose":"` + tight + `"}]`},
		{"errors", zap.Errors("k", []error{errors.New(leaky)}), `"k":[{"error":"` + tight + `"}]`},
		{"nil error", zap.Error(nil), ``},
		{"nil error pointer", zap.NamedError("k", nilErr), `"k":"<nil>"`},
		{"panicking error", zap.NamedError("k", panicError{}), `"kError":"PANIC=password=xxxxx"`},
		{"stringer", zap.Stringer("k", stringer{leaky}), `"k":"` + tight + `"`},
		{"nil stringer", zap.Stringer("k", nilStringer), `"k":"<nil>"`},
		{"panicking stringer", zap.Stringer("k", panicStringer{}), `"kError":"PANIC=password=xxxxx"`},
		{"struct", zap.Any("k", config{"db", "hunter2", 1, leaky, leaky, leaky, nil}),
			`"k":{"Host":"db","Password":"xxxxx","Port":1,"dsn":"` + tight + `","Raw":null}`},
		{"map", zap.Any("k", map[string]any{"pwd": []int{1}, leaky: 1.50, "z": "<b>&"}), `"k":{"` + tight + `":1.5,"pwd":"xxxxx","z":"<b>&"}`},
		{"nested JSON", zap.Reflect("k", []any{map[string]string{"Password": "a"}, json.RawMessage(`{"x":[1.0,true,null,"` + leaky + `"]}`)}),
			`"k":[{"Password":"xxxxx"},{"x":[1.0,true,null,"` + tight + `"]}]`},
		{"reflected string", zap.Reflect("k", leaky), `"k":"` + tight + `"`},
		{"reflected nil", zap.Reflect("k", nil), `"k":null`},
		{"reflected number", zap.Reflect("k", 7), `"k":7`},
		{"not to be marshaled", zap.Reflect("k", func() {}), `"kError":"json: unsupported type: func()"`},
		{"failing marshaler", zap.Reflect("k", badMarshaler{}), `"kError":"json: error calling MarshalJSON for type redact.badMarshaler: bad password=xxxxx"`},
		{"object", zap.Object("k", configObject{leaky}),
			`"k":{"dsn":"` + tight + `","port":5432,"password":"xxxxx","raw":{"dsn":"` + tight + `","password":"xxxxx"},"list":["` + tight + `",7,"` + tight +
				`",["` + tight + `"],{"inner":{"dsn":"` + tight + `"}}]},"kError":"cannot marshal ` + tight + `"`},
		{"inline", zap.Inline(zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
			enc.AddString("dsn", leaky)
			return nil
		})), `"dsn":"` + tight + `"`},
		{"dict", zap.Dict("k", zap.String("a", leaky), zap.Int("PGPASSWORD", 1)), `"k":{"a":"` + tight + `","PGPASSWORD":"xxxxx"}`},
		{"key", zap.String("postgres://app:hunter2@db", "v"), `"postgres://app:xxxxx@db":"v"`},
		{"password", zap.String("password", "hunter2"), `"password":"xxxxx"`},
		{"Passwd", zap.ByteString("Passwd", []byte("a")), `"Passwd":"xxxxx"`},
		{"pwd", zap.Int("pwd", 1234), `"pwd":"xxxxx"`},
		{"sslPassword", zap.Strings("sslPassword", []string{"a"}), `"sslPassword":"xxxxx"`},
		{"PGPASSWORD", zap.Duration("PGPASSWORD", 1), `"PGPASSWORD":"xxxxx"`},
		{"secret", zap.Object("secret", configObject{leaky}), `"secret":"xxxxx"`},
		{"passfile", zap.String("passfile", "/p"), `"passfile":"/p"`},
		{"int", zap.Int("k", 1), `"k":1`},
		{"duration", zap.Duration("k", time.Second), `"k":"1s"`},
		{"skip", zap.Skip(), ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := `{"msg":"m",` + tt.want + "}\n"
			if tt.want == "" {
				want = `{"msg":"m"}` + "\n"
			}
			log, out := jsonLogger(nil)
			log.Info("m", tt.field)
			if out.String() != want {
				t.Errorf("at the call\n got %swant %s", out, want)
			}
			log, out = jsonLogger(nil)
			log.With(tt.field).Info("m")
			if out.String() != want {
				t.Errorf("with With\n got %swant %s", out, want)
			}
			// A sink that prints the field itself must not find more.
			observed, logs := observer.New(zap.DebugLevel)
			zap.New(Core(observed, nil)).Info("m", tt.field)
			if dump := fmt.Sprintf("%+v %#v", logs.All(), logs.All()[0].ContextMap()); strings.Contains(dump, "hunter2") {
				t.Errorf("dump shows it: %s", dump)
			}
		})
	}
}

func TestCoreRedactsTheEntry(t *testing.T) {
	log, out := jsonLogger(New("abcd"), zap.AddStacktrace(zap.DebugLevel))
	log.Named("abcd").Info("m abcd " + leaky)
	var entry struct{ Msg, Logger, Stack string }
	if err := json.Unmarshal(out.Bytes(), &entry); err != nil {
		t.Fatal(err)
	}
	if entry.Msg != "m xxxxx "+tight || entry.Logger != Mask || !strings.Contains(entry.Stack, "TestCoreRedactsTheEntry") {
		t.Errorf("%+v", entry)
	}
}

func TestCoreMasksANamespaceNamedLikeAPassword(t *testing.T) {
	log, out := jsonLogger(nil)
	log.With(zap.Int("a", 1), zap.Namespace("password"), zap.Int("b", 2)).With(zap.Int("c", 3)).Info("m", zap.Namespace("n"), zap.Int("d", 4))
	want := `{"msg":"m","a":1,"password":{"b":"xxxxx","c":"xxxxx","n":{"d":"xxxxx"}}}` + "\n"
	if out.String() != want {
		t.Errorf("\n got %swant %s", out, want)
	}
}

func TestCoreKeepsErrorsWithoutTheirCauses(t *testing.T) {
	cause := errors.New("hunter2")
	observed, logs := observer.New(zap.DebugLevel)
	zap.New(Core(observed, nil)).Error("m", zap.Error(fmt.Errorf("open: %w", cause)))
	err := logs.All()[0].Context[0].Interface.(error)
	if errors.Is(err, cause) || errors.Unwrap(err) != nil || err.Error() != "open: hunter2" {
		t.Errorf("%#v", err)
	}
}

// A wrapper that adds itself and calls the inner Write loses hooks, sampling and a tee's levels.
func TestCoreLeavesTheDecisionToTheInnerCore(t *testing.T) {
	debug, debugLogs := observer.New(zap.DebugLevel)
	warn, warnLogs := observer.New(zap.WarnLevel)
	var hooked []string
	inner := zapcore.RegisterHooks(zapcore.NewTee(debug, warn), func(ent zapcore.Entry) error {
		hooked = append(hooked, ent.Message)
		return nil
	})
	core := Core(zapcore.NewSamplerWithOptions(inner, time.Hour, 2, 0), nil)
	if zapcore.LevelOf(core) != zap.DebugLevel {
		t.Error(zapcore.LevelOf(core))
	}
	log := zap.New(core)
	for range 5 {
		log.Info(leaky)
	}
	log.Warn(leaky)
	if debugLogs.Len() != 3 || warnLogs.Len() != 1 {
		t.Errorf("%d and %d entries", debugLogs.Len(), warnLogs.Len())
	}
	if len(hooked) != 3 || hooked[0] != tight {
		t.Errorf("hooks saw %q", hooked)
	}

	// The same with the sampler and hooks outside.
	observed, logs := observer.New(zap.InfoLevel)
	hooked = nil
	log = zap.New(Core(observed, nil), zap.Hooks(func(ent zapcore.Entry) error { hooked = append(hooked, ent.Message); return nil }),
		zap.WrapCore(func(c zapcore.Core) zapcore.Core { return zapcore.NewSamplerWithOptions(c, time.Hour, 2, 0) }))
	for range 5 {
		log.Info("m")
		log.Debug("m")
	}
	if logs.Len() != 2 || len(hooked) != 2 || log.Core().Enabled(zap.DebugLevel) {
		t.Errorf("%d entries, hooks saw %q", logs.Len(), hooked)
	}
}

type brokenSink struct{}

func (brokenSink) Write([]byte) (int, error) { return 0, errors.New("disk full, password=hunter2") }
func (brokenSink) Sync() error               { return errors.New("cannot sync, password=hunter2") }

func TestCoreReportsWriteErrorsOnceAndRedacted(t *testing.T) {
	var out syncBuffer
	core := Core(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), brokenSink{}, zap.DebugLevel), nil)
	log := zap.New(core, zap.ErrorOutput(&out))
	log.Info("m")
	if got := out.String(); strings.Count(got, "write error: ") != 1 || !strings.HasSuffix(got, "write error: disk full, password=xxxxx\n") {
		t.Errorf("%q", got)
	}
	if err := core.Sync(); err == nil || err.Error() != "cannot sync, password=xxxxx" {
		t.Error(err)
	}
	if err := core.Write(zapcore.Entry{}, nil); err == nil || err.Error() != "disk full, password=xxxxx" {
		t.Error(err)
	}
}

func TestCoreWithoutAnInnerOneIsSilent(t *testing.T) {
	zap.New(Core(nil, nil)).Info("m")
	zap.New(SlogCore(nil)).Info("m")
}

func TestHarmlessFieldsCostNothing(t *testing.T) {
	fields := []zap.Field{zap.Int("a", 1), zap.Bool("b", true), zap.Duration("c", 1), zap.Time("d", time.Now()), zap.Float64("e", 1.5), zap.String("f", "clean")}
	enc := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	plain := zapcore.NewCore(enc, zapcore.AddSync(discard{}), zap.InfoLevel)
	count := func(core zapcore.Core) float64 {
		log := zap.New(core)
		return testing.AllocsPerRun(200, func() { log.Info("lease acquired", fields...) })
	}
	if raceEnabled {
		return // sync.Pool drops at random then
	}
	if with, without := count(Core(plain, New("hunter2"))), count(plain); with > without {
		t.Errorf("%v allocations, without Core %v", with, without)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
