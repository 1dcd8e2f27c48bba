package redact

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"

	"go.uber.org/zap/zapcore"
)

type namespace struct {
	name  string
	attrs []slog.Attr
}

// An attrEncoder turns zap's fields into slog's attributes.
type attrEncoder struct {
	open []namespace // never empty; the first one is the entry or object itself
}

var _ zapcore.ObjectEncoder = (*attrEncoder)(nil)

func (e *attrEncoder) add(a slog.Attr) {
	ns := &e.open[len(e.open)-1]
	ns.attrs = append(ns.attrs, a)
}

// attrs returns everything added, namespaces as groups of one another.
func (e *attrEncoder) attrs() []slog.Attr {
	var inner []slog.Attr
	for i := len(e.open) - 1; i > 0; i-- {
		group := append(e.open[i].attrs[:len(e.open[i].attrs):len(e.open[i].attrs)], inner...)
		inner = []slog.Attr{{Key: e.open[i].name, Value: slog.GroupValue(group...)}}
	}
	return append(e.open[0].attrs, inner...)
}

func (e *attrEncoder) OpenNamespace(k string) { e.open = append(e.open, namespace{name: k}) }

func (e *attrEncoder) AddObject(k string, v zapcore.ObjectMarshaler) error {
	object := &attrEncoder{open: make([]namespace, 1)}
	err := v.MarshalLogObject(object)
	e.add(slog.Attr{Key: k, Value: slog.GroupValue(object.attrs()...)})
	return err
}

func (e *attrEncoder) AddArray(k string, v zapcore.ArrayMarshaler) error {
	m := zapcore.NewMapObjectEncoder()
	err := m.AddArray(k, v)
	e.add(slog.Any(k, printable(m.Fields[k])))
	return err
}

func (e *attrEncoder) AddReflected(k string, v any) error {
	e.add(slog.Any(k, v))
	return nil
}

func (e *attrEncoder) AddBinary(k string, v []byte)          { e.add(slog.Any(k, v)) }
func (e *attrEncoder) AddByteString(k string, v []byte)      { e.add(slog.String(k, string(v))) }
func (e *attrEncoder) AddString(k, v string)                 { e.add(slog.String(k, v)) }
func (e *attrEncoder) AddBool(k string, v bool)              { e.add(slog.Bool(k, v)) }
func (e *attrEncoder) AddDuration(k string, v time.Duration) { e.add(slog.Duration(k, v)) }
func (e *attrEncoder) AddTime(k string, v time.Time)         { e.add(slog.Time(k, v)) }
func (e *attrEncoder) AddComplex128(k string, v complex128)  { e.add(slog.Any(k, printable(v))) }
func (e *attrEncoder) AddComplex64(k string, v complex64)    { e.add(slog.Any(k, printable(v))) }
func (e *attrEncoder) AddFloat64(k string, v float64)        { e.add(slog.Any(k, printable(v))) }
func (e *attrEncoder) AddFloat32(k string, v float32)        { e.add(slog.Any(k, printable(v))) }
func (e *attrEncoder) AddInt(k string, v int)                { e.add(slog.Int(k, v)) }
func (e *attrEncoder) AddInt64(k string, v int64)            { e.add(slog.Int64(k, v)) }
func (e *attrEncoder) AddInt32(k string, v int32)            { e.add(slog.Int64(k, int64(v))) }
func (e *attrEncoder) AddInt16(k string, v int16)            { e.add(slog.Int64(k, int64(v))) }
func (e *attrEncoder) AddInt8(k string, v int8)              { e.add(slog.Int64(k, int64(v))) }
func (e *attrEncoder) AddUint(k string, v uint)              { e.add(slog.Uint64(k, uint64(v))) }
func (e *attrEncoder) AddUint64(k string, v uint64)          { e.add(slog.Uint64(k, v)) }
func (e *attrEncoder) AddUint32(k string, v uint32)          { e.add(slog.Uint64(k, uint64(v))) }
func (e *attrEncoder) AddUint16(k string, v uint16)          { e.add(slog.Uint64(k, uint64(v))) }
func (e *attrEncoder) AddUint8(k string, v uint8)            { e.add(slog.Uint64(k, uint64(v))) }
func (e *attrEncoder) AddUintptr(k string, v uintptr)        { e.add(slog.Uint64(k, uint64(v))) }

// printable replaces numbers for which JSON has no form by their text.
func printable(v any) any {
	switch v := v.(type) {
	case complex64:
		return fmt.Sprint(v)
	case complex128:
		return fmt.Sprint(v)
	case float32:
		// Through the shortest text, or 0.1 would become 0.10000000149011612.
		f, _ := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', -1, 32), 64)
		return printable(f)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}
	case []any:
		for i := range v {
			v[i] = printable(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = printable(v[k])
		}
	}
	return v
}
