package redact

import "strings"

// scanKeywords adds the words of a keyword/value DSN that are neither keys nor
// values: the rest of an unquoted password with a blank, a password whose = is
// missing, or a password alone. With malformed, the DSN is known to be that, and
// a key which the drivers don't know is taken for a piece of the password before it.
func scanKeywords(s string, malformed bool, spans []span) []span {
	if isURL(s) || bareUserinfoEnd(s) >= 0 {
		return spans
	}
	torn := false // behind an unquoted password
	for i := 0; i < len(s); {
		if isSpace(s[i]) {
			i++
			continue
		}
		word := i
		for i < len(s) && !isSpace(s[i]) && s[i] != '=' {
			i++
		}
		key := s[word:i]
		eq := skipSpaces(s, i)
		if eq < len(s) && s[eq] == '=' && isKey(key) {
			end, quoted := valueEnd(s, eq+1)
			switch {
			case isSecretKey(key):
				torn = torn || !quoted
			case malformed && torn && !knownKey(key):
				spans = append(spans, span{word, end})
			}
			i = end
			continue
		}
		i = nextSpace(s, word)
		switch {
		case isSecretKey(s[word:i]): // without its =
			return append(spans, span{skipSpaces(s, i), len(s)})
		case !knownKey(s[word:i]):
			spans = append(spans, span{word, i})
		}
	}
	return spans
}

// isKey tells whether s can be a parameter's name; those of extensions have a dot.
func isKey(s string) bool {
	for _, part := range strings.Split(s, ".") {
		if part == "" || wordEnd(part, 0) != len(part) {
			return false
		}
	}
	return true
}

func isURL(s string) bool {
	s = s[skipSpaces(s, 0):]
	return strings.HasPrefix(s, "postgres://") || strings.HasPrefix(s, "postgresql://")
}

// bareUserinfoEnd returns the index of the @ in a DSN user:password@host without
// a scheme, or with one that no driver knows, or -1 if s is none.
func bareUserinfoEnd(s string) int {
	if isURL(s) {
		return -1
	}
	first := skipSpaces(s, 0)
	if end := wordEnd(s, first); end > first && end < len(s) && (s[end] == '=' || isSpace(s[end])) {
		return -1 // keyword/value
	}
	at := strings.LastIndexByte(s, '@')
	if at < 0 || strings.IndexByte(s[:at], ':') < 0 {
		return -1
	}
	return at
}

func skipSpaces(s string, i int) int {
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	return i
}

// valueEnd returns the end of the value that follows a key and its = at i, as
// libpq reads it, and whether it is quoted.
func valueEnd(s string, i int) (end int, quoted bool) {
	i = skipSpaces(s, i)
	if i == len(s) || s[i] != '\'' {
		for i < len(s) && !isSpace(s[i]) {
			if s[i] == '\\' {
				i++
			}
			i++
		}
		return min(i, len(s)), false
	}
	for i++; i < len(s) && s[i] != '\''; i++ {
		if s[i] == '\\' {
			i++
		}
	}
	end = min(i+1, len(s))
	return end, end == len(s) || isSpace(s[end])
}
