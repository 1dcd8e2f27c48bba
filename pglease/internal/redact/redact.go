// Package redact keeps PostgreSQL passwords out of the library's errors and
// log entries (design section 3 item 9; hazards X1 and X2).
//
// Two nets are laid over a text.
//
// Patterns find what looks like a password: the userinfo of a URL and of a
// URL without its scheme, password parameters of a URL, the keyword form,
// environment dumps, JSON, the %+v and %#v of structs, flags, SQL, and the
// sentences in which lib/pq and pgx quote a piece of a malformed DSN. They
// read the text as it is and with its percent-encoding and its backslash
// escapes taken off, up to three layers deep. Where the end of a password
// can't be told they hide more, not less: to the next key, to the closing
// quote or bracket, or to the end of the line.
//
// Literals are secrets the caller knows ([New], [Redactor.Learn]). They are
// hidden wherever they stand, also encoded.
//
// What patterns can't know, and only literals can hide:
//
//   - a password without any sign of being one: the last field of a .pgpass
//     line, a %v of a struct (values without names), the word after "password is"
//   - the rest of an unquoted password behind something that reads like the
//     next key ("password=a host=b", "password=a&b=c", "Password:a B:c") or, in
//     free text, behind a colon and a blank
//   - the rest of a URL's password behind a blank, unless the URL stands in quotes
//   - a piece that the host, port or database name got because the password held
//     an unencoded delimiter: lib/pq reads postgres://u:12345/x@h/db as the
//     host u and the port 12345, and says "lookup u"
//   - up to three bytes of a wrong percent-encoding (net/url: invalid URL escape "%zz")
//   - base64 of a text that contains a password, except for literals
//   - encodings other than those named here, and more than three layers of them
package redact

import (
	"sync"
	"sync/atomic"
)

// Mask stands wherever a secret stood. It is what [net/url.URL.Redacted] writes.
const Mask = "xxxxx"

// maxPasses bounds the search for a text that redacting again does not change.
// Texts settle in two passes; one that has not settled after this many is
// built to keep the patterns busy, and goes as a whole.
const maxPasses = 8

// A Redactor hides secrets in text. Nil and the zero value are ready to use
// and hide what the patterns find; [New] and [Redactor.Learn] add literal
// secrets. It is safe for concurrent use and must not be copied.
type Redactor struct {
	mu       sync.Mutex // serialises writers; readers take no lock
	literals atomic.Pointer[[]string]
}

// New returns a Redactor that, besides what the patterns find, hides the given
// secrets: as they are, percent-encoded (wholly or in part, as query, path or
// userinfo), quoted and escaped (\', a doubled ', JSON, Go's %q), base64
// (also inside a longer encoded text), hexadecimal, and as a list of bytes.
//
// A secret of fewer than four bytes is ignored, because hiding every "a" or
// "abc" would leave no text to read; so is one that consists of the mask's
// letter only. The patterns still hide such a password where it stands as one.
func New(secrets ...string) *Redactor {
	r := new(Redactor)
	r.add(secrets)
	return r
}

// String returns s with every secret replaced by [Mask]. A text in which
// nothing looks like a secret is returned as it is; this costs no allocation
// unless the text contains escape sequences, which have to be decoded to be read.
//
// String is idempotent: redacting a redacted text changes nothing, as long as
// no secret was added in between.
func (r *Redactor) String(s string) string {
	literals := r.known()
	for range maxPasses {
		spans := find(s, literals, false)
		if len(spans) == 0 {
			return s
		}
		s = cover(s, spans)
	}
	return Mask
}

func (r *Redactor) known() []string {
	if r == nil {
		return nil
	}
	if p := r.literals.Load(); p != nil {
		return *p
	}
	return nil
}

// add publishes a new list; readers keep the one they have loaded.
func (r *Redactor) add(secrets []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.known()
	seen := make(map[string]bool, len(old))
	list := make([]string, 0, len(old)+len(secrets))
	for _, form := range old {
		seen[form] = true
		list = append(list, form)
	}
	for _, secret := range secrets {
		for _, form := range literalForms(secret) {
			if !seen[form] {
				seen[form] = true
				list = append(list, form)
			}
		}
	}
	r.literals.Store(&list)
}
