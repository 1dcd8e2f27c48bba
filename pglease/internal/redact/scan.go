package redact

import "strings"

// A scanner reads a text once from left to right and notes the spans that its
// patterns find. It keeps track of quotes and brackets, because they tell where
// an unquoted password ends at the latest.
type scanner struct {
	s     string
	whole bool // s is one DSN and nothing else
	spans []span

	doubleQuoted, backquoted bool
	open, outside            brackets // open ones on this line, and those outside the quotes

	floor    int // nothing before it belongs to a bare user:password@host
	urlEnd   int // end of the URL last seen
	urlExact bool

	environment bool // the key last seen is in capitals: PGPASSWORD

	// What follows is remembered because looking for it again at every match
	// would make a long line cost the square of its length.
	lineFrom, lineTo int // a stretch without a line's end, up to one
	limitAt          limit
	at               userinfo
}

func scan(s string, whole bool) []span {
	if !suspicious(s) {
		return nil
	}
	if whole {
		if at := bareUserinfoEnd(s); at >= 0 {
			return []span{{strings.IndexByte(s, ':') + 1, at}}
		}
	}
	sc := scanner{s: s, whole: whole}
	for i := 0; i < len(s); {
		next := 0
		switch s[i] {
		case ':':
			if strings.HasPrefix(s[i:], "://") {
				next = sc.url(i)
			}
		case '@':
			if i >= sc.urlEnd {
				next = sc.bareUserinfo(i)
			}
		case 'p', 'P', 's', 'S':
			next = sc.key(i)
		}
		if next > i {
			i = next
			continue
		}
		sc.track(i, i+1)
		i++
	}
	return sc.spans
}

// suspicious tells whether any pattern of the scanner can begin in s. Most texts
// are not, and need no bookkeeping.
func suspicious(s string) bool {
	for i := range len(s) {
		switch s[i] {
		case '@':
			return true
		case ':':
			if strings.HasPrefix(s[i:], "://") {
				return true
			}
		case 'p', 'P', 's', 'S':
			if secretWord(s, i) > 0 {
				return true
			}
		}
	}
	return false
}

// hide notes a span; what it covers can't be part of another pattern's match.
func (sc *scanner) hide(lo, hi int) {
	if lo < hi {
		sc.spans = append(sc.spans, span{lo, hi})
	}
	sc.floor = max(sc.floor, hi)
}

// track updates the state for s[from:to].
func (sc *scanner) track(from, to int) {
	for i := from; i < to; i++ {
		switch sc.s[i] {
		case '"':
			if backslashes(sc.s, i)%2 == 0 {
				sc.doubleQuoted = !sc.doubleQuoted
				sc.quote(sc.doubleQuoted)
			}
		case '`':
			sc.backquoted = !sc.backquoted
			sc.quote(sc.backquoted)
		case '(':
			sc.open.round++
		case ')':
			sc.open.round = max(0, sc.open.round-1)
		case '[':
			sc.open.square++
		case ']':
			sc.open.square = max(0, sc.open.square-1)
		case '{':
			sc.open.curly++
		case '}':
			sc.open.curly = max(0, sc.open.curly-1)
		case '\n':
			// A stray quote must not change how the following lines are read.
			sc.doubleQuoted, sc.backquoted = false, false
			sc.open, sc.outside = brackets{}, brackets{}
		}
	}
}

// quote keeps the brackets of a quoted text apart from those around it: a
// password in quotes may hold one that closes nothing.
func (sc *scanner) quote(opened bool) {
	if opened {
		sc.outside, sc.open = sc.open, brackets{}
	} else {
		sc.open, sc.outside = sc.outside, brackets{}
	}
}

type brackets struct{ round, square, curly int }

// In s[from:end] the userinfo ends at at, or there is none and at is -1.
type userinfo struct{ from, end, at int }

// A limit was found at from, with the quotes open that it names, and holds up to end.
type limit struct {
	from, end                int
	doubleQuoted, backquoted bool
}

// limit is where a value that begins at v ends at the latest: at the end of
// the line, or at the closing quote if v is inside one.
func (sc *scanner) limit(v int) int {
	if sc.whole {
		return len(sc.s)
	}
	known := sc.limitAt
	if known.from <= v && v < known.end && known.doubleQuoted == sc.doubleQuoted && known.backquoted == sc.backquoted {
		return known.end
	}
	end := sc.lineEnd(v)
	if sc.doubleQuoted {
		if i := closingQuote(sc.s[:end], v, '"', 0); i >= 0 {
			end = i
		}
	}
	if sc.backquoted {
		if i := closingQuote(sc.s[:end], v, '`', 0); i >= 0 {
			end = i
		}
	}
	sc.limitAt = limit{v, end, sc.doubleQuoted, sc.backquoted}
	return end
}

// lineEnd is the end of the line at i.
func (sc *scanner) lineEnd(i int) int {
	if i < sc.lineFrom || i > sc.lineTo || sc.lineTo == 0 {
		sc.lineFrom, sc.lineTo = i, lineEnd(sc.s, i)
	}
	return sc.lineTo
}

// inQuotes tells whether the limit is a quote, and so belongs to a text whose extent is known.
func (sc *scanner) inQuotes() bool { return sc.whole || sc.doubleQuoted || sc.backquoted }

func lineEnd(s string, from int) int {
	if i := strings.IndexAny(s[from:], "\r\n"); i >= 0 {
		return from + i
	}
	return len(s)
}

// closingQuote returns the index of the quote that closes one opened before
// from, or -1. escape is the number of backslashes before the opening quote: a
// text quoted twice writes \" where the inner one begins and ends. A quote in
// the middle of a word closes nothing, for a text may be quoted without escaping.
func closingQuote(s string, from int, quote byte, escape int) int {
	for i := from; i < len(s); i++ {
		if s[i] != quote {
			continue
		}
		n := 0
		if quote != '`' {
			n = backslashes(s[from:], i-from)
		}
		switch {
		case n < escape:
			return i - n // the text around ends here
		case (n-escape)%(escape+1) == 0 && ((n-escape)/(escape+1))%2 == 0 && softEnd(s, i+1):
			return i - escape
		}
	}
	return -1
}

// softEnd tells whether a word or a quoted value can have ended before i.
func softEnd(s string, i int) bool {
	for ; i < len(s); i++ {
		switch s[i] {
		case ' ', '\t', '\r', '\n', '"', '\'', '`', '\\':
			return true
		case ',', ';', ':', '.', ')', ']', '}', '>':
		default:
			return false
		}
	}
	return true
}

// backslashes counts those directly before i.
func backslashes(s string, i int) int {
	n := 0
	for n < i && s[i-1-n] == '\\' {
		n++
	}
	return n
}

func isBlank(c byte) bool  { return c == ' ' || c == '\t' }
func isSpace(c byte) bool  { return c == ' ' || '\t' <= c && c <= '\r' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isWord(c byte) bool   { return isLetter(c) || isDigit(c) || c == '_' }

func skipBlanks(s string, i int) int {
	for i < len(s) && isBlank(s[i]) {
		i++
	}
	return i
}

// wordEnd returns the end of the identifier at i, or i if there is none.
func wordEnd(s string, i int) int {
	if i == len(s) || isDigit(s[i]) {
		return i
	}
	for i < len(s) && isWord(s[i]) {
		i++
	}
	return i
}
