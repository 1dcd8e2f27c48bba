package redact

import "strings"

// url handles the scheme:// at i and returns where to read on.
//
// The password runs from the first colon of the userinfo to the last @ of the
// URL: a password with an unencoded @ : / # or ? is the very reason why a
// driver rejects a URL and quotes it.
func (sc *scanner) url(i int) int {
	s, from := sc.s, i+len("://")
	start := i
	for start > 0 && (isWord(s[start-1]) || strings.IndexByte("+.-", s[start-1]) >= 0) {
		start--
	}
	end, exact := sc.urlExtent(start, from)
	sc.urlEnd, sc.urlExact = end, exact

	at := -1
	if !nested(s[from:end]) {
		at = sc.userinfoEnd(from, end)
	}
	if at >= 0 {
		// A user's name has no slash: a colon behind one begins no password.
		if c := strings.IndexAny(s[from:at], ":/?#"); c >= 0 && s[from+c] == ':' {
			sc.hide(from+c+1, at)
			return at + 1
		}
		return from
	}
	bad := badPort(s[from:end], exact)
	if bad < 0 {
		return from
	}
	// What stands for a port is none, so it is a password whose @ was cut off
	// or stands behind a blank.
	lo, hi := from+bad, end
	if !exact {
		rest := s[end:sc.lineEnd(end)]
		if !strings.Contains(rest, "://") && strings.LastIndexByte(rest, '@') > 0 {
			hi = end + strings.LastIndexByte(rest, '@')
		} else if strings.IndexByte(":,;", s[hi-1]) >= 0 && hi-1 > lo {
			hi--
		}
	}
	sc.hide(lo, hi)
	sc.urlEnd = max(end, hi+1)
	return hi
}

// urlExtent returns the end of the URL whose scheme begins at start, and whether
// quotes around it make that certain.
func (sc *scanner) urlExtent(start, from int) (end int, exact bool) {
	s := sc.s
	if sc.whole {
		return len(s), true
	}
	if start < sc.urlEnd { // a URL in a URL
		return max(from, sc.urlEnd), sc.urlExact
	}
	line := s[:sc.lineEnd(from)]
	if start > 0 && strings.IndexByte("\"'`", s[start-1]) >= 0 {
		quote, escape := s[start-1], 0
		if quote != '`' {
			escape = backslashes(s, start-1)
		}
		if i := closingQuote(line, from, quote, escape); i >= 0 {
			return i, true
		}
	}
	for end = from; end < len(line) && !isSpace(line[end]); end++ {
		quoted := line[end] == '"' && sc.doubleQuoted && backslashes(line, end)%2 == 0 ||
			line[end] == '`' && sc.backquoted
		if quoted && softEnd(line, end+1) {
			break
		}
	}
	return end, false
}

// nested tells whether s, which begins with the authority, has another URL for
// a parameter, to which an @ then belongs.
func nested(s string) bool {
	q := strings.IndexByte(s, '?')
	if q < 0 || !plainHosts(s[:q]) {
		return false
	}
	i := strings.Index(s[q:], "://")
	if i < 0 {
		return false
	}
	start := strings.LastIndexByte(s[q:q+i], '=')
	return start >= 0 && wordEnd(s, q+start+1) == q+i
}

// userinfoEnd remembers its answer: every :// in one word asks for it.
func (sc *scanner) userinfoEnd(from, end int) int {
	if known := sc.at; known.end != end || known.from > from || known.at >= 0 && known.at < from {
		sc.at = userinfo{from, end, userinfoEnd(sc.s[:end], from)}
	}
	return sc.at.at
}

// userinfoEnd returns the index of the @ that ends the userinfo, or -1: the last
// one, unless an earlier one is followed by nothing but hosts, a path, and a query
// that begins with a key that the drivers know.
func userinfoEnd(s string, from int) int {
	last, query := -1, from
	for i := from; i < len(s); i++ {
		if s[i] != '@' {
			continue
		}
		last = i
		for query < len(s) && (query < i || s[query] != '?') {
			query++
		}
		if query < len(s) && plainHosts(s[i+1:query]) {
			if end := wordEnd(s, query+1); end < len(s) && s[end] == '=' && (knownKey(s[query+1:end]) || isSecretKey(s[query+1:end])) {
				break
			}
		}
	}
	return last
}

// plainHosts tells whether s consists of what hosts, ports and a database name are written in.
func plainHosts(s string) bool {
	slash := strings.IndexByte(s, '/')
	for i := range len(s) {
		if isWord(s[i]) || strings.IndexByte("-.%/", s[i]) >= 0 {
			continue
		}
		if slash >= 0 && i > slash || strings.IndexByte(":,[]", s[i]) < 0 {
			return false
		}
	}
	return true
}

// badPort returns where the first port begins that is no number, or -1. s begins
// with the authority; unless it is exact, punctuation of the text may follow.
func badPort(s string, exact bool) int {
	if i := strings.IndexAny(s, "/?#"); i >= 0 {
		s = s[:i]
	}
	if !exact {
		s, _, _ = strings.Cut(s, `\`) // the \n of a quoted text
		s = strings.TrimRight(s, ".,;:)]}>'\"`")
	}
	for from := 0; from < len(s); {
		end := len(s)
		if i := strings.IndexByte(s[from:], ','); i >= 0 {
			end = from + i
		}
		host := from
		if i := strings.IndexByte(s[from:end], ']'); i >= 0 && s[from] == '[' {
			host = from + i
		}
		if c := strings.LastIndexByte(s[host:end], ':'); c >= 0 {
			if strings.Trim(s[host+c+1:end], "0123456789") != "" {
				return host + strings.IndexByte(s[host:end], ':') + 1
			}
		}
		from = end + 1
	}
	return -1
}

// bareUserinfo handles the @ at i of a user:password@host without a scheme.
func (sc *scanner) bareUserinfo(i int) int {
	s := sc.s
	start := i
	for start > sc.floor && !isSpace(s[start-1]) && strings.IndexByte("\"`<(", s[start-1]) < 0 {
		start--
	}
	sc.floor = i + 1
	c := strings.IndexByte(s[start:i], ':')
	if c < 0 {
		return 0
	}
	end := i
	for at := i; at < len(s) && !isSpace(s[at]) && strings.IndexByte("\"`<>", s[at]) < 0; at++ {
		if s[at] == '@' {
			end = at
		}
	}
	sc.hide(start+c+1, end)
	return end + 1
}

// knownKey tells whether s is a connection parameter of libpq, lib/pq or pgx
// other than a password.
func knownKey(s string) bool {
	switch strings.ToLower(s) {
	case "host", "hostaddr", "port", "dbname", "database", "user", "passfile", "require_auth", "channel_binding",
		"connect_timeout", "client_encoding", "options", "application_name", "fallback_application_name",
		"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout",
		"replication", "gssencmode", "krbsrvname", "krbspn", "gsslib", "gssdelegation",
		"sslmode", "sslnegotiation", "sslcompression", "sslcert", "sslkey", "sslcertmode", "sslrootcert",
		"sslcrl", "sslcrldir", "sslsni", "sslinline", "requirepeer", "ssl_min_protocol_version", "ssl_max_protocol_version",
		"min_protocol_version", "max_protocol_version", "service", "servicefile", "target_session_attrs", "load_balance_hosts",
		"search_path", "timezone", "datestyle", "statement_timeout", "lock_timeout", "binary_parameters",
		"idle_in_transaction_session_timeout", "default_query_exec_mode", "statement_cache_capacity",
		"description_cache_capacity", "pool_max_conns", "pool_min_conns", "pool_max_conn_lifetime",
		"pool_max_conn_idle_time", "pool_health_check_period", "disable_prepared_binary_result":
		return true
	}
	return false
}
