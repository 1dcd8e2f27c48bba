package redact

import "strings"

// singleQuoted returns the span of libpq's or SQL's 'value' at v. It may go
// over several lines; without a closing quote it goes to the end of what encloses it.
// An opening quote whose closing one is hidden is hidden too: left alone, it
// would make the redacted text read differently.
func (sc *scanner) singleQuoted(v int) (lo, hi int) {
	s := sc.s
	lo = v + 1
	end := len(s)
	if sc.inQuotes() {
		end = sc.limit(v)
	}
	candidate := -1
	for i := lo; i < end; i++ {
		if s[i] != '\'' {
			continue
		}
		n := backslashes(s[lo:], i-lo)
		switch {
		case n > 0 && !(sc.whole && n%2 == 0):
			// Escaped, or behind escaped backslashes. In a text that is quoted
			// itself, which of them can't be told from their number alone, so
			// another closing quote is looked for first.
			if unescaped := n%2 == 0 && (!sc.doubleQuoted || n%4 == 0); unescaped && softEnd(s[:end], i+1) {
				candidate = i
			}
		case i+1 < end && s[i+1] == '\'':
			i++ // doubled
		case softEnd(s[:end], i+1) || s[i+1] == '&':
			return lo, i
		default:
			// A quote in the middle of a word: the rest of the word, and of
			// whatever follows it, may belong to the password.
			return v, max(i+1, sc.unquotedEnd(i+1, equals))
		}
	}
	if candidate >= 0 {
		return lo, candidate
	}
	return v, end
}

// quoted returns the span of a "value" of Go, JSON or a shell at v.
func (sc *scanner) quoted(v int, sep separator) (lo, hi int) {
	s := sc.s
	at := quoteAt(s, v)
	end := sc.lineEnd(at)
	hi = closingQuote(s[:end], at+1, s[at], at-v)
	switch {
	case hi < 0 && sep == jsonish:
		return v, end
	case hi < 0:
		return v, max(at+1, sc.unquotedEnd(at+1, sep))
	case sep == colon && hi+1 < len(s) && isBlank(s[hi+1]) && !isBlank(s[v-1]):
		// %#v would go on with a comma: this is the %+v of a password that
		// holds quotes itself.
		return v, max(hi, sc.unquotedEnd(hi+1, sep))
	}
	return at + 1, hi
}

// unquotedEnd returns the end of a value at v that nothing delimits: the next
// key, the bracket or quote that encloses it, or the end of the line.
func (sc *scanner) unquotedEnd(v int, sep separator) int {
	s := sc.s
	limit := sc.limit(v)
	prose := sep == equals && !sc.inQuotes() && !sc.environment
	end := limit
	for i := v; i < limit; i++ {
		switch {
		case sep == jsonish:
			if strings.IndexByte(",}] \t", s[i]) >= 0 {
				return i
			}
		case isBlank(s[i]) && (sc.nextKey(i, sep) || isSQLState(s[i:limit])):
			end = skipBlanks(s, i) - 1 // but for one, blanks may be its own
		case prose && s[i] == ':' && i+1 < limit && isBlank(s[i+1]):
			end = i // "password=x: connection refused"
		}
		if end < limit {
			break
		}
	}
	// The last bracket, not the first, and none before another key: a password
	// may contain brackets.
	for i := end - 1; end == limit && i >= v; i-- {
		if sc.closes(s[i]) && softEnd(s[:limit], i+1) {
			return i
		}
	}
	if end > v && end < len(s) && strings.IndexByte(",;", s[end-1]) >= 0 {
		end--
	}
	return end
}

// closes tells whether c closes a bracket that was opened on this line.
func (sc *scanner) closes(c byte) bool {
	switch c {
	case ')':
		return sc.open.round > 0
	case ']':
		return sc.open.square > 0
	case '}':
		return sc.open.curly > 0
	}
	return false
}

// isSQLState tells whether s is " (SQLSTATE 28P01)" and so pgx's end of a sentence.
func isSQLState(s string) bool {
	code, ok := strings.CutPrefix(s, " (SQLSTATE ")
	return ok && len(code) >= 6 && code[5] == ')' && wordEnd("_"+code, 0) == 6
}

// balancedEnd returns the end of the JSON array or object at i; if it does not
// end, the end of s.
func balancedEnd(s string, i int) int {
	depth, inString := 0, false
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			if backslashes(s, i)%2 == 0 {
				inString = !inString
			}
		case inString:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return i
}
