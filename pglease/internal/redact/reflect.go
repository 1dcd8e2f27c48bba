package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
)

// reflected returns what an encoder is to print for v: the JSON that zap's
// encoders would make of it, redacted string by string, so that order, numbers
// and shape stay. It never returns v itself, except a value without methods and
// parts: v may hold what its JSON leaves out, and a sink is free to print that.
func (r *Redactor) reflected(v any) (clean any, err error) {
	if v == nil {
		return nil, nil
	}
	if rv := reflect.ValueOf(v); rv.NumMethod() == 0 {
		switch k := rv.Kind(); {
		case k == reflect.String:
			return r.String(rv.String()), nil
		case reflect.Bool <= k && k <= reflect.Complex128:
			return v, nil
		}
	}
	defer func() {
		if p := recover(); p != nil {
			clean, err = nil, textError("PANIC="+r.String(fmt.Sprint(p)))
		}
	}()
	var raw bytes.Buffer
	if err := plainJSON(&raw, v); err != nil {
		return nil, textError(r.String(err.Error()))
	}
	dec := json.NewDecoder(&raw)
	dec.UseNumber()
	var out bytes.Buffer
	if err := r.copyJSON(&out, dec); err != nil {
		return nil, textError(r.String(err.Error()))
	}
	return jsonText(out.String()), nil
}

// jsonText is JSON to every encoder, and text to everything that prints it.
type jsonText string

func (j jsonText) MarshalJSON() ([]byte, error) { return []byte(j), nil }
func (j jsonText) String() string               { return string(j) }

// plainJSON writes v without the HTML escapes, like zap's encoders.
func plainJSON(to *bytes.Buffer, v any) error {
	enc := json.NewEncoder(to)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	to.Truncate(to.Len() - 1) // the line's end
	return nil
}

// copyJSON copies the next value of dec to out with its secrets hidden.
func (r *Redactor) copyJSON(out *bytes.Buffer, dec *json.Decoder) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case json.Delim:
		out.WriteRune(rune(token))
		for n := 0; dec.More(); n++ {
			if n > 0 {
				out.WriteByte(',')
			}
			if token == '{' {
				secret, err := r.copyKey(out, dec)
				if err != nil {
					return err
				}
				if secret {
					continue
				}
			}
			if err := r.copyJSON(out, dec); err != nil {
				return err
			}
		}
		end, err := dec.Token()
		if err != nil {
			return err
		}
		out.WriteRune(rune(end.(json.Delim)))
		return nil
	case string:
		return plainJSON(out, r.String(token))
	default: // json.Number, bool, nil
		return plainJSON(out, token)
	}
}

// copyKey copies a key, and for one that names a password the mask instead of
// its value; it tells whether it did the latter.
func (r *Redactor) copyKey(out *bytes.Buffer, dec *json.Decoder) (bool, error) {
	token, err := dec.Token()
	if err != nil {
		return false, err
	}
	key := token.(string)
	if err := plainJSON(out, r.String(key)); err != nil {
		return false, err
	}
	out.WriteByte(':')
	if !isSecretKey(key) {
		return false, nil
	}
	var hidden json.RawMessage
	if err := dec.Decode(&hidden); err != nil {
		return false, err
	}
	return true, plainJSON(out, Mask)
}
