package redact

import (
	"net/url"
	"strings"
)

// Learn adds the passwords of a DSN, in whatever form and however malformed, to
// the literal secrets: what the patterns find in it as it is and decoded. Of a
// password that is not quoted and holds a delimiter, which is what makes
// drivers take a DSN apart in the wrong place, it also adds the pieces between
// the delimiters. A DSN without a key, a scheme and an @ may be a password
// pasted by mistake, and is added itself. Secrets that [New] would ignore are
// ignored.
//
// It may be called at any time, also while others redact; on a nil Redactor it
// does nothing.
func (r *Redactor) Learn(dsn string) {
	if r == nil || dsn == "" {
		return
	}
	var secrets []string
	layers := []view{{s: dsn}}
	for n := 0; n < len(layers); n++ {
		v := layers[n]
		for _, sp := range append(scan(v.s, true), scanDriverTexts(v.s, true)...) {
			if sp.lo >= sp.hi {
				continue
			}
			secret := v.s[sp.lo:sp.hi]
			secrets = append(secrets, secret)
			secrets = append(secrets, decodings(secret)...)
			if !quotedIn(v.s, sp) {
				secrets = append(secrets, pieces(secret)...)
			}
		}
		if n == 0 {
			if d, ok := v.percentDecoded(); ok {
				layers = append(layers, d)
			}
			if d, ok := v.unescaped(); ok {
				layers = append(layers, d)
			}
		}
	}
	if u, err := url.Parse(dsn); err == nil {
		if password, ok := u.User.Password(); ok {
			secrets = append(secrets, password)
		}
		for key, values := range u.Query() {
			if isSecretKey(key) {
				secrets = append(secrets, values...)
			}
		}
	}
	r.add(secrets)
}

func decodings(secret string) []string {
	var list []string
	if v, ok := (view{s: secret}).percentDecoded(); ok {
		list = append(list, v.s)
	}
	if v, ok := (view{s: secret}).unescaped(); ok {
		list = append(list, v.s)
	}
	return list
}

func quotedIn(s string, sp span) bool {
	return sp.lo > 0 && s[sp.lo-1] == '\'' && sp.hi < len(s) && s[sp.hi] == '\''
}

// pieces splits where a driver may, and names only what is worth hiding.
func pieces(secret string) []string {
	parts := strings.FieldsFunc(secret, func(c rune) bool { return strings.ContainsRune("/?#@&=:; \t\r\n", c) })
	if len(parts) == 1 && parts[0] == secret {
		return nil
	}
	var list []string
	for _, part := range parts {
		if !knownKey(part) {
			list = append(list, part)
		}
	}
	return list
}

// isSecretKey tells whether a field of this name holds a password.
func isSecretKey(key string) bool {
	for i := range len(key) {
		if c := key[i] | 0x20; (c == 'p' || c == 's') && secretWord(key, i) == len(key) {
			return true
		}
	}
	return false
}
