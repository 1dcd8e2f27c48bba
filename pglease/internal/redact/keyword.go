package redact

import "strings"

// A separator says how a password follows its key, which decides where it ends.
type separator int

const (
	equals    separator = iota // password=x, PGPASSWORD=x, password = 'x'
	colon                      // Password:x, password: x, "password":"x"
	jsonish                    // the same behind a quoted key
	parameter                  // ?password=x&
	word                       // PASSWORD 'x', --password x
)

// maxKey is how far a key's name goes back from the word that makes it one, and
// maxGap how far behind a blank another parameter of a URL is looked for.
const (
	maxKey = 64
	maxGap = 256
)

// key handles a possible key of a password at i and returns where to read on, or 0.
func (sc *scanner) key(i int) int {
	s := sc.s
	end := secretWord(s, i)
	if end == 0 {
		return 0
	}
	start := i
	for start > max(0, i-maxKey) && (isWord(s[start-1]) || s[start-1] == '-' || s[start-1] == '.') {
		start--
	}
	v, sep := sc.separator(start, end)
	if v < 0 {
		return 0
	}
	sc.track(i, v)
	sc.environment = isEnvironment(s[start:end])
	lo, hi := v, v
	switch {
	case sep == parameter:
		hi = sc.parameterEnd(v)
	case v == len(s):
	case s[v] == '\'':
		lo, hi = sc.singleQuoted(v)
	case strings.IndexByte("\"`", s[quoteAt(s, v)]) >= 0:
		lo, hi = sc.quoted(v, sep)
	case sep == jsonish && (s[v] == '[' || s[v] == '{'):
		hi = balancedEnd(s, v)
	case sep == word:
		hi = nextSpace(s, v)
	default:
		hi = sc.unquotedEnd(v, sep)
	}
	sc.track(v, lo)
	sc.hide(lo, hi)
	return max(lo, hi)
}

// secretWord returns the end of a word at i that ends the name of a password,
// or 0. passfile and password_encryption are none: their names go on.
func secretWord(s string, i int) int {
	// Every word with a p or an s comes here: most of them go at once.
	if i+2 >= len(s) || strings.IndexByte("awe", s[i+1]|0x20) < 0 || strings.IndexByte("sdc", s[i+2]|0x20) < 0 {
		return 0
	}
	for _, name := range [...]string{"password", "passwd", "passphrase", "pass", "pwd", "secret"} {
		end := i + len(name)
		if end > len(s) || !strings.EqualFold(s[i:end], name) {
			continue
		}
		if name == "pass" && i > 0 && isLetter(s[i-1]) && !(s[i] == 'P' && 'a' <= s[i-1]) {
			return 0 // bypass, compass; but dbPass
		}
		if end < len(s) && s[end]|0x20 == 's' {
			end++
		}
		for end < len(s) && isDigit(s[end]) {
			end++
		}
		if end < len(s) && isWord(s[end]) {
			return 0
		}
		return end
	}
	return 0
}

// separator returns where the value of the key s[start:end] begins, or -1.
func (sc *scanner) separator(start, end int) (int, separator) {
	s := sc.s
	i := end
	quote := quoteAt(s, i)
	isQuoted := quote < len(s) && (s[quote] == '"' || s[quote] == '\'' && quote == i)
	if isQuoted {
		i = quote + 1
		if i < len(s) && s[i] == ']' { // config["password"] = x
			i++
		}
	}
	sepAt := i
	for sepAt < len(s) && isSpace(s[sepAt]) {
		sepAt++
	}
	if sepAt == len(s) {
		return -1, 0
	}
	switch s[sepAt] {
	case '=':
		v := sepAt + 1
		if v < len(s) && s[v] == '>' && isQuoted { // 'password' => 'x'
			v++
		}
		if sepAt == end && start > 0 && strings.IndexByte("?&;", s[start-1]) >= 0 {
			return v, parameter
		}
		if v < len(s) && isBlank(s[v]) && sc.nextKey(v, equals) && isEnvironment(s[start:end]) {
			return -1, 0 // empty; libpq would take the next word all the same
		}
		return skipBlanks(s, v), equals
	case ':':
		if sepAt > skipBlanks(s, i) {
			return -1, 0
		}
		v := sepAt + 1
		if v < len(s) && s[v] == '=' {
			return skipBlanks(s, v+1), equals
		}
		if isQuoted {
			for v < len(s) && isSpace(s[v]) {
				v++
			}
			return v, jsonish
		}
		return skipBlanks(s, v), colon
	}
	if isQuoted || sepAt == i {
		return -1, 0
	}
	switch {
	case s[sepAt] == '\'': // SQL: PASSWORD 'x'
		return sepAt, word
	case strings.HasPrefix(s[sepAt:], "E'"):
		return sepAt + 1, word
	case s[start] == '-': // --password x
		return sepAt, word
	}
	return -1, 0
}

func isEnvironment(key string) bool { return key == strings.ToUpper(key) }

// quoteAt returns the index of the byte behind the backslashes at i, if that is
// a quote, and otherwise i.
func quoteAt(s string, i int) int {
	q := i
	for q < len(s) && s[q] == '\\' {
		q++
	}
	if q < len(s) && (s[q] == '"' || s[q] == '\'' || s[q] == '`') {
		return q
	}
	return i
}

// parameterEnd is the end of a URL parameter: at the next one, not at every &,
// for an unencoded & is a reason to be rejected and quoted.
func (sc *scanner) parameterEnd(v int) int {
	s := sc.s
	end := len(s)
	switch {
	case sc.urlExact && v <= sc.urlEnd:
		end = sc.urlEnd
	case !sc.whole:
		limit := sc.limit(v)
		end = min(nextSpace(s, v), limit)
		// A blank inside: the URL goes on if another parameter follows.
		if i := nextParameter(s[:min(limit, end+maxGap)], end); i >= 0 && !strings.Contains(s[end:i], "://") {
			end = i
		}
	}
	if i := nextParameter(s[:end], v); i >= 0 {
		end = i
	}
	return end
}

func nextParameter(s string, from int) int {
	for i := from; i < len(s); i++ {
		for _, and := range [...]string{"&", `\u0026`, "&amp;"} {
			if !strings.HasPrefix(s[i:], and) {
				continue
			}
			key := i + len(and)
			if end := wordEnd(s, key); end > key && end < len(s) && s[end] == '=' {
				return i
			}
		}
	}
	return -1
}

func nextSpace(s string, i int) int {
	for i < len(s) && !isSpace(s[i]) {
		i++
	}
	return i
}

// nextKey tells whether blanks and another key stand at i. For structs the key
// is an exported field's name: hiding one field more beats showing half a password.
func (sc *scanner) nextKey(i int, sep separator) bool {
	s := sc.s
	i = skipBlanks(s, i)
	for i < len(s) && s[i] == '-' {
		i++
	}
	end := i
	for end < len(s) && (isWord(s[end]) || end > i && (s[end] == '.' || s[end] == '-')) {
		end++
	}
	if end == i || isDigit(s[i]) || end == len(s) {
		return false
	}
	if sep == colon && s[end] == ':' && !strings.HasPrefix(s[end:], "://") {
		return true
	}
	eq := skipBlanks(s, end)
	return eq < len(s) && s[eq] == '='
}
