package redact

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// A form is one way in which a password gets into a text. fits says for which
// passwords the text still tells where they end; for the others, only literals help.
type form struct {
	name string
	text func(password string) string
	fits func(password string) bool
}

type dumped struct {
	Host     string
	Password string
	Port     int
}

var (
	nextField = regexp.MustCompile(`[ \t]-*[\pL_][\w.-]*[ \t]*[:=]`)
	libpq     = strings.NewReplacer(`\`, `\\`, `'`, `\'`)
)

func anything(string) bool    { return true }
func validUTF8(p string) bool { return utf8.ValidString(p) }
func oneLine(p string) bool   { return !strings.ContainsAny(p, "\r\n") }
func oneWord(p string) bool {
	return !strings.ContainsFunc(p, func(r rune) bool { return r < utf8.RuneSelf && isSpace(byte(r)) })
}
func without(chars string) func(string) bool {
	return func(p string) bool { return !strings.ContainsAny(p, chars) }
}
func all(fits ...func(string) bool) func(string) bool {
	return func(p string) bool {
		for _, fit := range fits {
			if !fit(p) {
				return false
			}
		}
		return true
	}
}
func noQuoteFirst(p string) bool { return p == "" || !strings.ContainsAny(p[:1], "\"'`\\ \t[{=>") }
func noNextField(p string) bool {
	return !nextField.MatchString(p+" ") && !strings.HasSuffix(strings.TrimRight(p, " \t"), "-")
}

// noQuery excludes what reads like a host and its parameters, or like a URL in a parameter.
func noQuery(p string) bool {
	return !strings.Contains(p, "?") || !strings.Contains(p, "@") && !strings.Contains(p, "://")
}
func noParameter(p string) bool {
	return nextParameter(p+"&", 0) < 0 && !strings.Contains(p+"&sslmode=", "&amp;")
}
func noSentence(s ...string) func(string) bool {
	return func(p string) bool {
		for _, part := range s {
			if strings.Contains(p, part) {
				return false
			}
		}
		return true
	}
}

func keywords(p string) string {
	return "host=db user=app password='" + libpq.Replace(p) + "' dbname=shop"
}

var forms = []form{
	{"URL", func(p string) string {
		return "dial " + (&url.URL{Scheme: "postgres", User: url.UserPassword("app", p), Host: "db:5432", Path: "/shop"}).String() + " failed"
	}, anything},
	{"URL, query", func(p string) string {
		return "postgres://db/shop?user=app&password=" + url.QueryEscape(p) + "&sslmode=disable"
	}, anything},
	{"URL in a URL", func(p string) string {
		return "http://x/?dsn=" + url.QueryEscape("postgres://app:"+url.QueryEscape(p)+"@db/shop") + "&y=z"
	}, anything},
	{"raw URL", func(p string) string { return "dial postgres://app:" + p + "@db:5432/shop failed" },
		all(oneWord, noQuery)},
	{"raw URL, %q", func(p string) string { return fmt.Sprintf("parse %q: bad", "postgres://app:"+p+"@db:5432/shop") },
		noQuery},
	{"raw query", func(p string) string { return "dial postgres://app@db/shop?password=" + p + "&sslmode=disable now" },
		all(oneWord, noParameter)},
	{"bare userinfo, %q", func(p string) string {
		return fmt.Sprintf("missing \"=\" after %q in connection info string", "app:"+p+"@db")
	},
		noSentence("in connection info")},
	{"lookup", func(p string) string { return "lookup " + p + "@db: no such host" }, oneWord},
	{"keyword", keywords, anything},
	{"keyword, %q", func(p string) string { return fmt.Sprintf("open %q: refused", keywords(p)) }, anything},
	{"keyword, word", func(p string) string { return "host=db password=" + p + " dbname=shop" },
		all(oneLine, noQuoteFirst, noNextField, noSentence(": ", ":\t"))},
	{"keyword, pgx", func(p string) string { return "cannot parse `host=db password=" + p + " port=x`: invalid port" },
		all(oneLine, noQuoteFirst, noNextField, without("`"))},
	{"environment", func(p string) string { return "PGUSER=app\nPGPASSWORD=" + p + "\nPGHOST=db" },
		all(oneLine, noQuoteFirst, noNextField)},
	{"environment, slice", func(p string) string { return fmt.Sprint([]string{"PGUSER=app", "PGPASSWORD=" + p, "PGHOST=db"}) },
		all(oneLine, noQuoteFirst, noNextField)},
	{"environment, %q", func(p string) string {
		return fmt.Sprintf("%q", []string{"PGUSER=app", "PGPASSWORD=" + p, "PGHOST=db"})
	},
		all(noQuoteFirst, noNextField)},
	{"JSON", func(p string) string { return jsonOf(map[string]any{"user": "app", "password": p, "x": 1}) }, validUTF8},
	{"JSON, DSN", func(p string) string { return jsonOf(map[string]any{"dsn": keywords(p), "x": "y"}) }, validUTF8},
	{"JSON in JSON", func(p string) string { return jsonOf(map[string]any{"body": jsonOf(map[string]any{"password": p})}) }, validUTF8},
	{"%+v", func(p string) string { return fmt.Sprintf("config %+v", dumped{"db", p, 5432}) },
		all(oneLine, noQuoteFirst, noNextField)},
	{"%#v", func(p string) string { return fmt.Sprintf("config %#v", dumped{"db", p, 5432}) }, anything},
	{"%#v in an error's %q", func(p string) string { return fmt.Sprintf("%q", fmt.Sprintf("config %#v", dumped{"db", p, 5432})) }, anything},
	{"SQL", func(p string) string {
		return "ALTER ROLE app PASSWORD '" + strings.ReplaceAll(p, "'", "''") + "' LOGIN"
	}, anything},
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

var seedPasswords = []string{
	"hunter2", "Tr0ub4dor&3x", "correct horse battery staple", `hu'n"t/e r\2&ü<`, "p@ss:w/o#r?d%40", "''''", `""""`, "`a`: bcd",
	`\\\\`, "a]b} c)d", " lead", "trail ", "a=b c=d", "%zz%20%", "xxxxxabcd", "password=", "://@?", "line\nbreak", "\x00\xff\xfe12", "😀😀",
	`a\"b,"c`, "ab@cd:ef@gh", "1234/5678", "{\"a\":1}", "null", "it's \"me\"", "-flag", "nil", "=xxxxx",
}

// shown returns a part of the password that the redacted text still shows,
// plainly or under an encoding that is taken off easily.
func shown(text, password string, surroundings ...string) string {
	for _, known := range surroundings {
		surroundings = append(surroundings, readings(known)...)
	}
	for _, reading := range readings(text) {
		if part := survivor(reading, password, surroundings...); part != "" {
			return part
		}
	}
	return ""
}

func readings(text string) []string {
	v := view{s: text}
	list := []string{text}
	if d, ok := v.percentDecoded(); ok {
		list = append(list, d.s)
	}
	if d, ok := v.unescaped(); ok {
		list = append(list, d.s)
		if d, ok := d.unescaped(); ok {
			list = append(list, d.s)
		}
	}
	return list
}

func FuzzString(f *testing.F) {
	for i := range forms {
		for _, p := range seedPasswords {
			f.Add(uint8(i), p)
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, password string) {
		checkForm(t, forms[int(n)%len(forms)], password)
	})
}

// checkForm tells whether the patterns hide the password where they can, and
// literals hide it anyhow.
func checkForm(t *testing.T, form form, password string) {
	t.Helper()
	text := form.text(password)
	// Mask and empty password: what these texts contain is no secret.
	surroundings := []string{form.text(Mask), form.text("")}
	check := func(net string, r *Redactor) {
		got := r.String(text)
		if again := r.String(got); again != got {
			t.Errorf("%s, %s: not idempotent:\n%q\n%q", form.name, net, got, again)
		}
		if part := shown(got, password, surroundings...); part != "" {
			t.Errorf("%s, %s: %q survives\n in %q\nfrom %q", form.name, net, part, got, text)
		}
	}
	if form.fits(password) {
		check("patterns", nil)
	}
	check("literals", New(password))
	learnt := new(Redactor)
	learnt.Learn(keywords(password))
	check("learnt", learnt)
}
