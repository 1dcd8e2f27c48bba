package redact

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxLayers is how many encodings are taken off a text: JSON inside a %q inside JSON.
const maxLayers = 3

// A view is one way to read a text. It remembers where each of its bytes comes
// from, so that what is found in it can be hidden in the text itself.
type view struct {
	s  string
	at []int // at[i] is the origin of s[i], at[len(s)] the text's end; nil for the text itself
}

func (v view) origin(i int) int {
	if v.at == nil {
		return i
	}
	return v.at[i]
}

// A decoder builds a view from another, byte by byte.
type decoder struct {
	from view
	s    []byte
	at   []int
}

func newDecoder(v view) *decoder {
	return &decoder{from: v, s: make([]byte, 0, len(v.s)), at: make([]int, 0, len(v.s)+1)}
}

// put appends text that stands for what begins at offset i of the view read.
func (d *decoder) put(i int, text ...byte) {
	for _, c := range text {
		d.s = append(d.s, c)
		d.at = append(d.at, d.from.origin(i))
	}
}

func (d *decoder) view() view {
	d.at = append(d.at, d.from.origin(len(d.from.s)))
	return view{s: string(d.s), at: d.at}
}

// percentDecoded decodes every valid %XX; false if there is none.
func (v view) percentDecoded() (view, bool) {
	s := v.s
	i := nextPercent(s, 0)
	if i < 0 {
		return view{}, false
	}
	d := newDecoder(v)
	for from := 0; ; {
		if i < 0 {
			i = len(s)
		}
		for ; from < i; from++ {
			d.put(from, s[from])
		}
		if i == len(s) {
			return d.view(), true
		}
		n, _ := strconv.ParseUint(s[i+1:i+3], 16, 8)
		d.put(i, byte(n))
		from = i + 3
		i = nextPercent(s, from)
	}
}

func nextPercent(s string, from int) int {
	for {
		i := strings.IndexByte(s[from:], '%')
		if i < 0 {
			return -1
		}
		i += from
		if i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			return i
		}
		from = i + 1
	}
}

// unescaped takes off one layer of backslashes: \' \" \\ \/ \n \x41 \u0041
// and the like; false if there is none. An unknown escape stands for its letter.
func (v view) unescaped() (view, bool) {
	s := v.s
	if strings.IndexByte(s, '\\') < 0 {
		return view{}, false
	}
	d := newDecoder(v)
	for i := 0; i < len(s); {
		if s[i] != '\\' || i+1 == len(s) {
			d.put(i, s[i])
			i++
			continue
		}
		i += d.escape(i)
	}
	return d.view(), true
}

// escape decodes the escape sequence at i and returns its length.
func (d *decoder) escape(i int) int {
	s := d.from.s[i+1:]
	switch c := s[0]; c {
	case 'n':
		d.put(i, '\n')
	case 't':
		d.put(i, '\t')
	case 'r':
		d.put(i, '\r')
	case 'a':
		d.put(i, '\a')
	case 'b':
		d.put(i, '\b')
	case 'f':
		d.put(i, '\f')
	case 'v':
		d.put(i, '\v')
	case 'x':
		if n, ok := hexRune(s[1:], 2); ok {
			d.put(i, byte(n))
			return 4
		}
		d.put(i, c)
	case 'u', 'U':
		digits := 4
		if c == 'U' {
			digits = 8
		}
		n, ok := hexRune(s[1:], digits)
		if !ok {
			d.put(i, c)
			break
		}
		length := 2 + digits
		// JSON writes what is beyond 16 bits as two surrogates.
		if rest := d.from.s[i+length:]; utf16.IsSurrogate(n) && strings.HasPrefix(rest, `\u`) {
			if low, ok := hexRune(rest[2:], 4); ok {
				if r := utf16.DecodeRune(n, low); r != utf8.RuneError {
					n = r
					length += 6
				}
			}
		}
		d.put(i, utf8.AppendRune(nil, n)...)
		return length
	default:
		d.put(i, c)
	}
	return 2
}

func hexRune(s string, digits int) (rune, bool) {
	if len(s) < digits {
		return 0, false
	}
	for i := range digits {
		if !isHex(s[i]) {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(s[:digits], 16, 32)
	return rune(n), err == nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}
