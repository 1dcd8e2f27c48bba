package redact

import (
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func BenchmarkString(b *testing.B) {
	for _, bb := range []struct {
		name, text string
		r          *Redactor
	}{
		{"clean", cleanTexts[2], nil},
		{"clean with literals", cleanTexts[2], New("correct horse", "battery staple")},
		{"clean 4 KiB", strings.Repeat("lease acquired by host-1 ", 164), nil},
		{"URL", patternTable[0].text, nil},
		{"keyword", leaky, nil},
		{"nested", `body "{\"password\":\"hun\\\"ter2\",\"port\":5432}" end`, nil},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bb.text)))
			for b.Loop() {
				_ = bb.r.String(bb.text)
			}
		})
	}
}

func BenchmarkCore(b *testing.B) {
	plain := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zap.InfoLevel)
	fields := []zap.Field{zap.String("name", "nightly-report"), zap.Int64("token", 1767225600000000), zap.Duration("ttl", 30*time.Second), zap.Time("expires", time.Now())}
	for _, bb := range []struct {
		name string
		core zapcore.Core
	}{{"without", plain}, {"with", Core(plain, New("correct horse"))}} {
		b.Run(bb.name, func(b *testing.B) {
			log := zap.New(bb.core)
			b.ReportAllocs()
			for b.Loop() {
				log.Info("lease renewed", fields...)
			}
		})
	}
}
