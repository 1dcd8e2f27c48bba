package pglease

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/pglease/pglease-go/pglease/internal/redact"
)

// newLogger returns the logger of a client: the user's, behind the redaction that every entry passes.
func newLogger(o clientOptions, r *redact.Redactor) *zap.Logger {
	switch {
	case o.zap != nil:
		return o.zap.WithOptions(zap.WrapCore(func(inner zapcore.Core) zapcore.Core { return redact.Core(inner, r) }))
	case o.slog != nil:
		return zap.New(redact.Core(redact.SlogCore(o.slog.Handler()), r))
	default:
		return zap.NewNop()
	}
}
