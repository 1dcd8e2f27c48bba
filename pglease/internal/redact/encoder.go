package redact

import (
	"time"

	"go.uber.org/zap/zapcore"
)

// object and array return marshalers that redact what m adds. They are plain
// functions: a sink that prints a field with %+v instead of encoding it sees an address.
func (r *Redactor) object(m zapcore.ObjectMarshaler, all bool) zapcore.ObjectMarshaler {
	return zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
		return r.plainError(m.MarshalLogObject(&objectEncoder{to: enc, r: r, all: all}))
	})
}

func (r *Redactor) array(m zapcore.ArrayMarshaler) zapcore.ArrayMarshaler {
	return zapcore.ArrayMarshalerFunc(func(enc zapcore.ArrayEncoder) error {
		return r.plainError(m.MarshalLogArray(arrayEncoder{PrimitiveArrayEncoder: enc, to: enc, r: r}))
	})
}

// An objectEncoder passes on to another encoder what is no secret.
type objectEncoder struct {
	to  zapcore.ObjectEncoder
	r   *Redactor
	all bool // inside a namespace that is named like a password
}

var _ zapcore.ObjectEncoder = (*objectEncoder)(nil)

// key returns the key to write under, and whether there is a value to write:
// that of a key which names a password has been masked.
func (e *objectEncoder) key(k string) (string, bool) {
	clean := e.r.String(k)
	if e.all || isSecretKey(k) {
		e.to.AddString(clean, Mask)
		return "", false
	}
	return clean, true
}

func (e *objectEncoder) OpenNamespace(k string) {
	e.to.OpenNamespace(e.r.String(k))
	e.all = e.all || isSecretKey(k)
}

func (e *objectEncoder) AddArray(k string, v zapcore.ArrayMarshaler) error {
	if k, ok := e.key(k); ok {
		return e.r.plainError(e.to.AddArray(k, e.r.array(v)))
	}
	return nil
}

func (e *objectEncoder) AddObject(k string, v zapcore.ObjectMarshaler) error {
	if k, ok := e.key(k); ok {
		return e.r.plainError(e.to.AddObject(k, e.r.object(v, false)))
	}
	return nil
}

func (e *objectEncoder) AddReflected(k string, v any) error {
	k, ok := e.key(k)
	if !ok {
		return nil
	}
	clean, err := e.r.reflected(v)
	if err != nil {
		return err
	}
	return e.r.plainError(e.to.AddReflected(k, clean))
}

func (e *objectEncoder) AddString(k, v string) { add(e, k, e.r.String(v), e.to.AddString) }
func (e *objectEncoder) AddByteString(k string, v []byte) {
	add(e, k, e.r.bytes(v), e.to.AddByteString)
}
func (e *objectEncoder) AddBinary(k string, v []byte) { add(e, k, e.r.bytes(v), e.to.AddBinary) }

func (e *objectEncoder) AddBool(k string, v bool)              { add(e, k, v, e.to.AddBool) }
func (e *objectEncoder) AddDuration(k string, v time.Duration) { add(e, k, v, e.to.AddDuration) }
func (e *objectEncoder) AddTime(k string, v time.Time)         { add(e, k, v, e.to.AddTime) }
func (e *objectEncoder) AddComplex128(k string, v complex128)  { add(e, k, v, e.to.AddComplex128) }
func (e *objectEncoder) AddComplex64(k string, v complex64)    { add(e, k, v, e.to.AddComplex64) }
func (e *objectEncoder) AddFloat64(k string, v float64)        { add(e, k, v, e.to.AddFloat64) }
func (e *objectEncoder) AddFloat32(k string, v float32)        { add(e, k, v, e.to.AddFloat32) }
func (e *objectEncoder) AddInt(k string, v int)                { add(e, k, v, e.to.AddInt) }
func (e *objectEncoder) AddInt64(k string, v int64)            { add(e, k, v, e.to.AddInt64) }
func (e *objectEncoder) AddInt32(k string, v int32)            { add(e, k, v, e.to.AddInt32) }
func (e *objectEncoder) AddInt16(k string, v int16)            { add(e, k, v, e.to.AddInt16) }
func (e *objectEncoder) AddInt8(k string, v int8)              { add(e, k, v, e.to.AddInt8) }
func (e *objectEncoder) AddUint(k string, v uint)              { add(e, k, v, e.to.AddUint) }
func (e *objectEncoder) AddUint64(k string, v uint64)          { add(e, k, v, e.to.AddUint64) }
func (e *objectEncoder) AddUint32(k string, v uint32)          { add(e, k, v, e.to.AddUint32) }
func (e *objectEncoder) AddUint16(k string, v uint16)          { add(e, k, v, e.to.AddUint16) }
func (e *objectEncoder) AddUint8(k string, v uint8)            { add(e, k, v, e.to.AddUint8) }
func (e *objectEncoder) AddUintptr(k string, v uintptr)        { add(e, k, v, e.to.AddUintptr) }

func add[T any](e *objectEncoder, k string, v T, to func(string, T)) {
	if k, ok := e.key(k); ok {
		to(k, v)
	}
}

// An arrayEncoder passes on to another encoder what is no secret; what is a
// number, a bool or the like passes through the embedded part.
type arrayEncoder struct {
	zapcore.PrimitiveArrayEncoder
	to zapcore.ArrayEncoder
	r  *Redactor
}

var _ zapcore.ArrayEncoder = arrayEncoder{}

func (e arrayEncoder) AppendString(v string)     { e.to.AppendString(e.r.String(v)) }
func (e arrayEncoder) AppendByteString(v []byte) { e.to.AppendByteString(e.r.bytes(v)) }

func (e arrayEncoder) AppendDuration(v time.Duration) { e.to.AppendDuration(v) }
func (e arrayEncoder) AppendTime(v time.Time)         { e.to.AppendTime(v) }

func (e arrayEncoder) AppendArray(v zapcore.ArrayMarshaler) error {
	return e.r.plainError(e.to.AppendArray(e.r.array(v)))
}

func (e arrayEncoder) AppendObject(v zapcore.ObjectMarshaler) error {
	return e.r.plainError(e.to.AppendObject(e.r.object(v, false)))
}

func (e arrayEncoder) AppendReflected(v any) error {
	clean, err := e.r.reflected(v)
	if err != nil {
		return err
	}
	return e.r.plainError(e.to.AppendReflected(clean))
}
