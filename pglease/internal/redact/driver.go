package redact

import (
	"regexp"
	"strings"
)

// A quotation is a sentence of a driver, of net/url or of net that quotes a
// piece of a malformed DSN. Any piece may be a part of the password: what the
// driver takes for a key, a host or a port begins wherever the password holds a
// delimiter.
type quotation struct {
	before, after string // around the piece
}

// Gathered from lib/pq v1.12.3 and pgx v5.13.0 and their sources.
var quotations = [...]quotation{
	{`missing "=" after "`, `" in connection info string`},
	{`URI query parameter: "`, `")`},
	{`unexpected spaces found in "`, `", use percent-encoded`},
	{`invalid percent-encoded token: "`, `")`},
	{`connection string key "`, `" is not in`},
	{`invalid port ":`, `" after host`},
}

// scanDriverTexts returns the spans of such pieces in s. With whole, s is one DSN.
func scanDriverTexts(s string, whole bool) []span {
	if whole {
		return scanKeywords(s, false, nil)
	}
	var spans []span
	// One byte each decides for most texts.
	if strings.IndexByte(s, '"') >= 0 {
		spans = scanQuotations(s, spans)
		spans = scanRegions(s, `ConnString:"`, `", msg:`, spans)
	}
	if strings.IndexByte(s, '`') >= 0 {
		spans = scanRegions(s, "cannot parse `", "`: ", spans)
	}
	if strings.IndexByte(s, '@') >= 0 {
		spans = scanLookups(s, spans)
	}
	if strings.IndexByte(s, '{') >= 0 {
		spans = scanConfigs(s, spans)
	}
	return spans
}

func scanQuotations(s string, spans []span) []span {
	for _, q := range quotations {
		for from := 0; ; {
			i := strings.Index(s[from:], q.before)
			if i < 0 {
				break
			}
			lo := from + i + len(q.before)
			// The piece may contain what comes after it, so the last one counts;
			// a next sentence of this kind has its own.
			hi := len(s)
			if i := strings.Index(s[lo:], q.before); i >= 0 {
				hi = lo + i
			}
			if i := strings.LastIndex(s[lo:hi], q.after); i >= 0 {
				hi = lo + i
			}
			spans = append(spans, span{lo, hi})
			from = hi
		}
	}
	return spans
}

// misread is what pgx says of a URL whose password held an unescaped / or @: the rest of it became the database.
var misread = regexp.MustCompile("database=([^\\s`]*@[^\\s`]*)")

// scanLookups finds passwords with an @, of which pgx takes the rest for a host, or a part for the database.
func scanLookups(s string, spans []span) []span {
	wholeHost := false
	for _, m := range misread.FindAllStringSubmatchIndex(s, -1) {
		spans = append(spans, span{m[2], m[3]})
		wholeHost = true
	}
	for from := 0; ; {
		i := strings.Index(s[from:], "lookup ")
		if i < 0 {
			return spans
		}
		lo := from + i + len("lookup ")
		end := nextSpace(s, lo)
		if wholeHost {
			spans = append(spans, span{lo, end})
		} else if at := strings.LastIndexByte(s[lo:end], '@'); at > 0 {
			spans = append(spans, span{lo, lo + at})
		}
		from = end
	}
}

// The %v of the drivers' configs, which name no fields. pgx's password ends
// before its TLS config, timeout and dial function; lib/pq's has nothing behind it
// that tells, so it goes to the end of the line.
var (
	pgxConfig = regexp.MustCompile(`\{\S* \d+ \S* \S* ((?s:.+?)) (?:<nil>|0x[0-9a-f]+) [0-9.hmsnµ]+ (?:<nil>|0x[0-9a-f]+) `)
	pqConfig  = regexp.MustCompile(`\{\S* invalid IP \d+ \S* \S* (.+)`)
)

func scanConfigs(s string, spans []span) []span {
	if strings.Contains(s, " 0x") {
		for _, m := range pgxConfig.FindAllStringSubmatchIndex(s, -1) {
			spans = append(spans, span{m[2], m[3]})
		}
	}
	if strings.Contains(s, " invalid IP ") {
		for _, m := range pqConfig.FindAllStringSubmatchIndex(s, -1) {
			spans = append(spans, span{m[2], m[3]})
		}
	}
	return spans
}

// scanRegions looks into whole DSNs that stand between before and after.
func scanRegions(s, before, after string, spans []span) []span {
	for from := 0; ; {
		i := strings.Index(s[from:], before)
		if i < 0 {
			return spans
		}
		lo := from + i + len(before)
		hi := len(s)
		if i := strings.Index(s[lo:], after); i >= 0 {
			hi = lo + i
		}
		for _, sp := range scanKeywords(s[lo:hi], true, scan(s[lo:hi], true)) {
			spans = append(spans, span{lo + sp.lo, lo + sp.hi})
		}
		from = hi
	}
}
