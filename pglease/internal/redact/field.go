package redact

import (
	"fmt"
	"reflect"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// fields returns in with its secrets hidden; in itself if there is nothing to
// hide. all says that every value is to be masked, and is returned as it is to
// be for the fields that follow.
func (r *Redactor) fields(in []zapcore.Field, all bool) ([]zapcore.Field, bool) {
	var out []zapcore.Field
	for i, f := range in {
		clean, changed := r.field(f, all)
		if f.Type == zapcore.NamespaceType && isSecretKey(f.Key) {
			all = true
		}
		if changed && out == nil {
			out = append(make([]zapcore.Field, 0, len(in)), in[:i]...)
		}
		if out != nil {
			out = append(out, clean)
		}
	}
	if out == nil {
		return in, all
	}
	return out, all
}

// field returns f with its secrets hidden, and whether that differs from f.
func (r *Redactor) field(f zapcore.Field, all bool) (zapcore.Field, bool) {
	key := r.String(f.Key)
	changed := key != f.Key
	secret := all || isSecretKey(f.Key)
	f.Key = key
	switch f.Type {
	case zapcore.SkipType, zapcore.NamespaceType:
		return f, changed
	case zapcore.InlineMarshalerType:
		if m, ok := f.Interface.(zapcore.ObjectMarshaler); ok {
			f.Interface = r.object(m, all)
		}
		return f, true
	}
	if secret {
		return zap.String(key, Mask), true
	}
	switch f.Type {
	case zapcore.StringType:
		if clean := r.String(f.String); clean != f.String {
			f.String = clean
			return f, true
		}
		return f, changed
	case zapcore.ByteStringType, zapcore.BinaryType:
		b, _ := f.Interface.([]byte)
		if clean := r.bytes(b); len(clean) != len(b) || len(b) > 0 && &clean[0] != &b[0] {
			f.Interface = clean
			return f, true
		}
		return f, changed
	case zapcore.ErrorType:
		if err, ok := f.Interface.(error); ok {
			return r.errorField(key, err), true
		}
	case zapcore.StringerType:
		if s, ok := f.Interface.(fmt.Stringer); ok {
			return r.stringerField(key, s), true
		}
	case zapcore.ObjectMarshalerType:
		if m, ok := f.Interface.(zapcore.ObjectMarshaler); ok {
			f.Interface = r.object(m, false)
			return f, true
		}
	case zapcore.ArrayMarshalerType:
		if m, ok := f.Interface.(zapcore.ArrayMarshaler); ok {
			f.Interface = r.array(m)
			return f, true
		}
	case zapcore.ReflectType:
		v, err := r.reflected(f.Interface)
		if err != nil {
			return zap.String(key+"Error", err.Error()), true
		}
		f.Interface = v
		return f, true
	}
	return f, changed
}

// bytes returns b itself if there is nothing to hide in it.
func (r *Redactor) bytes(b []byte) []byte {
	s := string(b)
	if clean := r.String(s); clean != s {
		return []byte(clean)
	}
	return b
}

// stringerField calls String, as zap would, and prints a panic as zap would.
func (r *Redactor) stringerField(key string, s fmt.Stringer) (f zapcore.Field) {
	defer func() {
		if p := recover(); p != nil {
			f = r.panicField(key, s, p)
		}
	}()
	return zap.String(key, r.String(s.String()))
}

func (r *Redactor) errorField(key string, err error) (f zapcore.Field) {
	defer func() {
		if p := recover(); p != nil {
			f = r.panicField(key, err, p)
		}
	}()
	return zapcore.Field{Key: key, Type: zapcore.ErrorType, Interface: r.logError(err)}
}

func (r *Redactor) panicField(key string, value, panicked any) zapcore.Field {
	if isNilPointer(value) {
		return zap.String(key, "<nil>")
	}
	return zap.String(key+"Error", "PANIC="+r.String(fmt.Sprint(panicked)))
}

func isNilPointer(v any) bool {
	rv := reflect.ValueOf(v)
	return rv.Kind() == reflect.Pointer && rv.IsNil()
}

// logError returns an error that prints err's texts without secrets and leads
// nowhere else. It keeps the two shapes that zap prints in a field of their own:
// what %+v adds, and the members of a group.
func (r *Redactor) logError(err error) error {
	text := err.Error()
	switch e := err.(type) {
	case interface{ Errors() []error }:
		group := groupError{textError: textError(r.String(text))}
		for _, member := range e.Errors() {
			if member != nil {
				group.members = append(group.members, r.member(member))
			}
		}
		return group
	case fmt.Formatter:
		if verbose := fmt.Sprintf("%+v", e); verbose != text {
			return verboseError{textError(r.String(text)), r.String(verbose)}
		}
	}
	return textError(r.String(text))
}

func (r *Redactor) member(err error) (clean error) {
	defer func() {
		if p := recover(); p != nil {
			clean = textError(r.panicField("", err, p).String)
		}
	}()
	return r.logError(err)
}

// plainError returns err itself if its text shows no secret; nil stays nil.
func (r *Redactor) plainError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if clean := r.String(text); clean != text {
		return textError(clean)
	}
	return err
}

type textError string

func (e textError) Error() string { return string(e) }

type verboseError struct {
	textError
	verbose string
}

func (e verboseError) Format(f fmt.State, verb rune) {
	if verb == 'v' && (f.Flag('+') || f.Flag('#')) {
		_, _ = f.Write([]byte(e.verbose))
		return
	}
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), string(e.textError))
}

type groupError struct {
	textError
	members []error
}

func (e groupError) Errors() []error { return e.members }
