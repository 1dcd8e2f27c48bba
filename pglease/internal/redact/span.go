package redact

import (
	"slices"
	"strings"
)

// A span is a half-open range of bytes that must not be shown.
type span struct{ lo, hi int }

// find returns what is to be hidden in s: sorted, apart from each other, and
// without what is hidden already. With whole, s is one DSN and nothing else.
func find(s string, literals []string, whole bool) []span {
	f := finder{literals: literals, whole: whole}
	f.read(view{s: s}, maxLayers)
	return f.merged(s)
}

// A finder gathers spans over every way to read one text.
type finder struct {
	literals []string
	whole    bool
	spans    []span
}

// read looks at v, and at v with one more layer of encoding taken off. A decoded
// view adds to what is hidden and never takes away: what only looks like an
// encoding has been read as it stands as well.
func (f *finder) read(v view, layers int) {
	f.keep(v, scan(v.s, f.whole))
	f.keep(v, scanDriverTexts(v.s, f.whole))
	for _, secret := range f.literals {
		f.keepAll(v, secret)
	}
	if layers == 0 {
		return
	}
	if d, ok := v.percentDecoded(); ok {
		f.read(d, layers-1)
	}
	if d, ok := v.unescaped(); ok {
		f.read(d, layers-1)
	}
}

func (f *finder) keep(v view, spans []span) {
	for _, sp := range spans {
		if sp.lo < sp.hi {
			f.spans = append(f.spans, span{v.origin(sp.lo), v.origin(sp.hi)})
		}
	}
}

func (f *finder) keepAll(v view, secret string) {
	for from := 0; ; {
		i := strings.Index(v.s[from:], secret)
		if i < 0 {
			return
		}
		i += from
		f.spans = append(f.spans, span{v.origin(i), v.origin(i + len(secret))})
		from = i + 1 // occurrences may overlap: abab in ababab
	}
}

// merged joins spans that overlap or touch: two masks side by side would tell
// where one pattern ended, and would not be stable under a second pass.
func (f *finder) merged(s string) []span {
	if len(f.spans) == 0 {
		return nil
	}
	slices.SortFunc(f.spans, func(a, b span) int { return a.lo - b.lo })
	joined := f.spans[:1]
	for _, sp := range f.spans[1:] {
		if last := &joined[len(joined)-1]; sp.lo <= last.hi {
			last.hi = max(last.hi, sp.hi)
		} else {
			joined = append(joined, sp)
		}
	}
	return slices.DeleteFunc(joined, func(sp span) bool { return s[sp.lo:sp.hi] == Mask })
}

// cover replaces each span of s by the mask.
func cover(s string, spans []span) string {
	var b strings.Builder
	b.Grow(len(s) + len(spans)*len(Mask))
	from := 0
	for _, sp := range spans {
		b.WriteString(s[from:sp.lo])
		b.WriteString(Mask)
		from = sp.hi
	}
	b.WriteString(s[from:])
	return b.String()
}
