package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// Each row's password would be shown by the text; want says what stays readable.
var patternTable = []struct{ name, text, want string }{
	{"URL", "postgres://app:hunter2@db:5432/shop", "postgres://app:xxxxx@db:5432/shop"},
	{"postgresql URL", "postgresql://app:hunter2@db/shop", "postgresql://app:xxxxx@db/shop"},
	{"any scheme", "redis://:hunter2@cache:6379/0", "redis://:xxxxx@cache:6379/0"},
	{"URL with delimiters", "postgres://app:hun@ter:2/#?%x@db:5432/shop", "postgres://app:xxxxx@db:5432/shop"},
	{"URL with quotes", `dial postgres://app:it's"2@db/shop failed`, "dial postgres://app:xxxxx@db/shop failed"},
	{"URL, @ in the query", "postgres://app:hunter2@db/shop?application_name=a@b", "postgres://app:xxxxx@db/shop?application_name=a@b"},
	{"URL without password, @ in the query", "postgres://app@db:5432/shop?application_name=a@b", "postgres://app@db:5432/shop?application_name=a@b"},
	{"URL, several hosts", "postgres://app:hunter2@h1:5432,h2:5433/shop", "postgres://app:xxxxx@h1:5432,h2:5433/shop"},
	{"URL, IPv6", "postgres://app:hunter2@[::1]:5432/shop", "postgres://app:xxxxx@[::1]:5432/shop"},
	{"URL, socket", "postgres://app:hunter2@/shop?host=/tmp", "postgres://app:xxxxx@/shop?host=/tmp"},
	{"URL, encoded", "postgres://app:hun%40ter%2F2@db/shop", "postgres://app:xxxxx@db/shop"},
	{"URL, encoded colon", "postgres://app%3Ahunter2@db/shop", "postgres://app%3Axxxxx@db/shop"},
	{"URL, cut at #", `parse "postgres://app:hunter2": invalid port ":hunter2" after host`, `parse "postgres://app:xxxxx": invalid port ":xxxxx" after host`},
	{"URL in text", "cannot dial postgres://app:hunter2@db/shop: timeout", "cannot dial postgres://app:xxxxx@db/shop: timeout"},
	{"URL with a blank in quotes", `parse "postgres://app:hun ter2@db/shop": x`, `parse "postgres://app:xxxxx@db/shop": x`},
	{"URL with a blank", "dial postgres://app:hun ter2@db/shop now", "dial postgres://app:xxxxx@db/shop now"},
	{"two URLs", "a postgres://a:hunter2@h1/x b postgres://b:hunter3@h2/x c", "a postgres://a:xxxxx@h1/x b postgres://b:xxxxx@h2/x c"},
	{"query", "postgres://app@db/shop?password=hunter2&sslmode=disable", "postgres://app@db/shop?password=xxxxx&sslmode=disable"},
	{"query, both", "postgres://app@db/shop?sslpassword=hunter2&PassWord=hunter3", "postgres://app@db/shop?sslpassword=xxxxx&PassWord=xxxxx"},
	{"query, unencoded &", "postgres://app@db/shop?password=hun&ter2&sslmode=disable x", "postgres://app@db/shop?password=xxxxx&sslmode=disable x"},
	{"query, blank", "postgres://app@db/shop?password=hun ter2&sslmode=disable x", "postgres://app@db/shop?password=xxxxx&sslmode=disable x"},
	{"bare userinfo", "dial app:hunter2@db:5432/shop", "dial app:xxxxx@db:5432/shop"},
	{"bare userinfo, slashes", "//app:hunter2@db:5432/shop", "//app:xxxxx@db:5432/shop"},

	{"keyword", "host=db user=app password=hunter2 dbname=shop", "host=db user=app password=xxxxx dbname=shop"},
	{"keyword, quoted", "host=db password = 'hun ter2' dbname=shop", "host=db password = 'xxxxx' dbname=shop"},
	{"keyword, escapes", `password='hun\'ter\\' dbname=shop`, `password=xxxxx dbname=shop`},
	{"keyword, doubled quote", `password='hun''ter2' dbname=shop`, `password='xxxxx' dbname=shop`},
	{"keyword, unterminated", "host=db password='hun ter2", "host=db password=xxxxx"},
	{"keyword, several lines", "host=db\npassword='hun\nter2'\nport=5432", "host=db\npassword='xxxxx'\nport=5432"},
	{"keyword, capitals", "HOST=db PASSWORD=hunter2 PORT=5432", "HOST=db PASSWORD=xxxxx PORT=5432"},
	{"keyword, unquoted blank", "host=db password=hun ter2 dbname=shop", "host=db password=xxxxx dbname=shop"},
	{"keyword, escaped blank", `host=db password=hun\ ter2 dbname=shop`, "host=db password=xxxxx dbname=shop"},
	{"keyword, quote inside", "host=db password=it's2 dbname=shop", "host=db password=xxxxx dbname=shop"},
	{"keyword, junk behind the quote", "password='hun'ter2 dbname=shop", "password=xxxxx dbname=shop"},
	{"keyword in text", "open host=db password=hunter2: connection refused (SQLSTATE 08006)", "open host=db password=xxxxx: connection refused (SQLSTATE 08006)"},
	{"keyword in backquotes", "cannot parse `host=db password=hun ter2`: bad", "cannot parse `host=db password=xxxxx`: bad"},
	{"sslpassword, passfile", "sslpassword=hunter2 passfile=/home/app/.pgpass", "sslpassword=xxxxx passfile=/home/app/.pgpass"},
	{"service file", "[shop]\nhost=db\npassword=hunter2\nuser=app", "[shop]\nhost=db\npassword=xxxxx\nuser=app"},
	{"pq: missing =", `missing "=" after "hunter2" in connection info string`, `missing "=" after "xxxxx" in connection info string`},

	{"environment", "PGHOST=db\nPGPASSWORD=hunter2\nPGUSER=app", "PGHOST=db\nPGPASSWORD=xxxxx\nPGUSER=app"},
	{"environment, slice", "exec [A=b PGPASSWORD=hun ter2 C=d]: exit 1", "exec [A=b PGPASSWORD=xxxxx C=d]: exit 1"},
	{"environment, slice's end", "exec [A=b PGPASSWORD=hun ter2]: exit 1", "exec [A=b PGPASSWORD=xxxxx]: exit 1"},
	{"environment, %q", `["A=b" "PGPASSWORD=hun \"ter2" "C=d"]`, `["A=b" "PGPASSWORD=xxxxx" "C=d"]`},
	{"environment, empty", "[PGPASSWORD= HOME=/root]", "[PGPASSWORD= HOME=/root]"},
	{"environment, others", "PGSSLPASSWORD=hunter2 PGPASSFILE=/p DB_PASSWORD=hunter2 E=f", "PGSSLPASSWORD=xxxxx PGPASSFILE=/p DB_PASSWORD=xxxxx E=f"},
	{"export", `export PGPASSWORD="hun ter2"`, `export PGPASSWORD="xxxxx"`},

	{"JSON", `{"user":"app","password":"hun\"ter2","port":5432}`, `{"user":"app","password":"xxxxx","port":5432}`},
	{"JSON, blanks", `{ "Password" : "hunter2", "Port" : 5432 }`, `{ "Password" : "xxxxx", "Port" : 5432 }`},
	{"JSON, number", `{"password":12345,"port":5432}`, `{"password":xxxxx,"port":5432}`},
	{"JSON, list", `{"passwords":["hunter2","a]b"],"port":5432}`, `{"passwords":xxxxx,"port":5432}`},
	{"JSON, DSN", `{"dsn":"host=db password='hun \"ter2' port=5432","x":1}`, `{"dsn":"host=db password='xxxxx' port=5432","x":1}`},
	{"JSON in a string", `body "{\"password\":\"hun\\\"ter2\",\"port\":5432}" end`, `body "{\"password\":\"xxxxx\",\"port\":5432}" end`},
	{"JSON, escaped key", `{"dsn":"postgres://app@db/shop?password=hunter2\u0026sslmode=disable"}`, `{"dsn":"postgres://app@db/shop?password=xxxxx\u0026sslmode=disable"}`},
	{"YAML", "user: app\npassword: hun ter2\nport: 5432", "user: app\npassword: xxxxx\nport: 5432"},
	{"%+v", "{Host:db Password:hunter2 Port:5432}", "{Host:db Password:xxxxx Port:5432}"},
	{"%+v, blanks", "&{Host:db Password:hun 'ter2 Port:5432}", "&{Host:db Password:xxxxx Port:5432}"},
	{"%+v, last", "{Host:db Password:hunter2} failed", "{Host:db Password:xxxxx} failed"},
	{"%#v", `cfg{Host:"db", Password:"hun\"ter2", Port:0x1538}`, `cfg{Host:"db", Password:"xxxxx", Port:0x1538}`},
	{"%v of a map", "map[password:hunter2 user:app]", "map[password:xxxxx user:app]"},
	{"%#v of a map", `map[string]string{"password":"hunter2", "user":"app"}`, `map[string]string{"password":"xxxxx", "user":"app"}`},
	{"%v of pgx's config", "{db 5432 shop app hun ter2 <nil> 0s 0x79f840 0x79f8e0", "{db 5432 shop app xxxxx <nil> 0s 0x79f840 0x79f8e0"},
	{"%v of pq's config", "{db invalid IP 5432 shop app hun ter2  x}", "{db invalid IP 5432 shop app xxxxx"},

	{"flag", "pglease --password hunter2 --host db", "pglease --password xxxxx --host db"},
	{"flag, =", "pglease --password=hunter2 --host=db", "pglease --password=xxxxx --host=db"},
	{"SQL", "ALTER ROLE app PASSWORD 'hun''ter2' VALID UNTIL 'infinity'", "ALTER ROLE app PASSWORD 'xxxxx' VALID UNTIL 'infinity'"},
	{"URL in a URL", "http://x/?dsn=postgres%3A%2F%2Fapp%3Ahunter2%40db%2Fshop&y=z", "http://x/?dsn=postgres%3A%2F%2Fapp%3Axxxxx%40db%2Fshop&y=z"},
	{"keyword in a URL", "http://x/?dsn=host%3Ddb%20password%3Dhunter2%20port%3D1", "http://x/?dsn=host%3Ddb%20password%3Dxxxxx%20port%3D1"},
	{"URL in a URL in a URL", "http://x/?u=http%3A%2F%2Fy%2F%3Fdsn%3Dpostgres%253A%252F%252Fapp%253Ahunter2%2540db", "http://x/?u=http%3A%2F%2Fy%2F%3Fdsn%3Dpostgres%253A%252F%252Fapp%253Axxxxx%2540db"},
}

func TestPatternsHideThePasswordAndNothingElse_X2(t *testing.T) {
	for _, tt := range patternTable {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []*Redactor{nil, {}, New()} {
				got := r.String(tt.text)
				if got != tt.want {
					t.Fatalf("\n got %s\nwant %s\nfrom %s", got, tt.want, tt.text)
				}
				if again := r.String(got); again != got {
					t.Fatalf("not idempotent: %s", again)
				}
			}
		})
	}
}

// cleanTexts hold no secret and stay as they are, without a copy.
var cleanTexts = []string{
	"",
	"lease acquired",
	"failed to connect to `user=app database=shop`: 127.0.0.1:5432 (127.0.0.1): server error: FATAL: password authentication failed for user \"app\" (SQLSTATE 28P01)",
	"pq: password authentication failed for user \"app\" (28P01)",
	"pq: empty password returned by client",
	"host=db port=5432 user=app dbname=shop passfile=/home/app/.pgpass sslmode=require",
	"postgres://app@db:5432/shop?sslmode=require",
	"http://127.0.0.1:8080/healthz, http://[::1]:80/",
	"dial tcp [::1]:5432: connect: connection refused",
	"password_encryption=scram-sha-256 require_auth=password",
	"the password must be set; bypass: true, compass=north",
	"mail bob@example.org or 50% of <alice@example.org>",
	"\t/root/go/pkg/mod/go.uber.org/zap@v1.28.0/logger.go:219",
	"lookup db.internal on 10.0.0.53:53: no such host",
	"[a b]{c:d}(e) \"f\" `g` 'h' 0x1f 100%",
}

func TestCleanTextIsReturnedAsItIs(t *testing.T) {
	r := New("correct horse", "battery staple")
	for _, text := range cleanTexts {
		if got := r.String(text); got != text {
			t.Errorf("\n got %s\nfrom %s", got, text)
		}
		if n := testing.AllocsPerRun(100, func() { _ = r.String(text) }); n != 0 && !raceEnabled {
			t.Errorf("%v allocations for %s", n, text)
		}
	}
}

func TestLiteralsAreHiddenInEveryEncoding(t *testing.T) {
	const secret = `hu'n"t/e r\2&ü<`
	quoted, _ := json.Marshal(secret)
	nested, _ := json.Marshal(string(quoted))
	r := New(secret)
	for name, form := range map[string]string{
		"plain":        secret,
		"query":        url.QueryEscape(secret),
		"path":         url.PathEscape(secret),
		"userinfo":     url.UserPassword("", secret).String(),
		"lower case":   strings.ToLower(url.QueryEscape(secret)),
		"some bytes":   strings.ReplaceAll(secret, "/", "%2f"),
		"all bytes":    allPercent(secret),
		"libpq":        strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(secret),
		"SQL":          strings.ReplaceAll(secret, `'`, `''`),
		"JSON":         string(quoted),
		"JSON in JSON": string(nested),
		"%q":           fmt.Sprintf("%q", secret),
		"%+q":          fmt.Sprintf("%+q", secret),
		"%q of %q":     fmt.Sprintf("%q", fmt.Sprintf("%q", secret)),
		"base64":       base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 URL":   base64.URLEncoding.EncodeToString([]byte(secret)),
		"basic auth":   base64.StdEncoding.EncodeToString([]byte("app:" + secret)),
		"longer":       base64.StdEncoding.EncodeToString([]byte("ab" + secret + "cd")),
		"%x":           fmt.Sprintf("%x", secret),
		"%X":           fmt.Sprintf("%X", secret),
		"%v of bytes":  fmt.Sprint([]byte(secret)),
		"%#v of bytes": fmt.Sprintf("%#v", []byte(secret)),
	} {
		t.Run(name, func(t *testing.T) {
			got := r.String("before " + form + " after")
			if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
				t.Errorf("hides too much: %s", got)
			}
			if len(got) > len("before xxxxx after")+14 || !strings.Contains(got, Mask) {
				t.Errorf("got %s\nfrom %s", got, form)
			}
			if again := r.String(got); again != got {
				t.Errorf("not idempotent: %s, %s", got, again)
			}
		})
	}
}

func allPercent(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02x", s[i])
	}
	return b.String()
}

func TestShortLiteralsAreLeftToThePatterns(t *testing.T) {
	r := New("", "a", "abc", "xxxxxxx")
	if got := r.String("a cab abc password=abc"); got != "a cab abc password=xxxxx" {
		t.Error(got)
	}
	if got := New("abab").String("_ababab_"); got != "_xxxxx_" {
		t.Error(got)
	}
	if got := New("password").String("password=password"); got != "xxxxx=xxxxx" {
		t.Error(got)
	}
}

func TestLearnHidesADSNsPasswordWhereverItTurnsUp(t *testing.T) {
	for _, tt := range []struct{ name, dsn, text, want string }{
		{"URL", "postgres://app:hunter2@db/shop", "word hunter2", "word xxxxx"},
		{"URL, encoded", "postgres://app:hun%40ter2@db/shop", "word hun@ter2", "word xxxxx"},
		{"query", "postgres://db/shop?user=app&password=hun%26ter2", "word hun&ter2", "word xxxxx"},
		{"keyword", "host=db password=hunter2", "word hunter2", "word xxxxx"},
		{"keyword, quoted", `host=db password='hun \'ter2'`, "word hun 'ter2", "word xxxxx"},
		{"keyword, the quoted words are none", `host=db password='correct horse'`, "a horse", "a horse"},
		{"keyword, blank", "host=db password=correct horse port=1", `no "horse" here`, `no "xxxxx" here`},
		{"sslpassword", "host=db sslpassword=hunter2", "word hunter2", "word xxxxx"},
		{"slash", "postgres://app:12345/hunter2@db/shop", "dial app:12345, path hunter2", "dial app:xxxxx, path xxxxx"},
		{"at", "postgres://app:hunter/x@hidden/rest@db/shop", "lookup hidden: no such host", "lookup xxxxx: no such host"},
		{"piece at the end", "postgres://app:],hunter#@db/shop", "word ],hunter", "word xxxxx"},
		{"bare userinfo", "app:hunter2@db/shop", "word hunter2", "word xxxxx"},
		{"pasted password", "hunter2", "word hunter2", "word xxxxx"},
		{"no password", "postgres://app@db/shop", "app db shop", "app db shop"},
		{"no password, keyword", "host=db user=app", "app db", "app db"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r Redactor
			r.Learn(tt.dsn)
			if got := r.String(tt.text); got != tt.want {
				t.Errorf("got %s, want %s (learnt %q)", got, tt.want, r.known())
			}
		})
	}
	(*Redactor)(nil).Learn("password=hunter2")
}

func TestLearnWhileRedacting(t *testing.T) {
	r := New("hunter0000")
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 50 {
				secret := fmt.Sprintf("hunter%d%03d", n, i)
				r.Learn("password=" + secret)
				if got := r.String("word " + secret + " hunter0000"); got != "word xxxxx xxxxx" {
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()
}

// A text made to keep the patterns busy costs time in proportion to its length.
func TestLongLinesAreLinear(t *testing.T) {
	for _, unit := range []string{"password=a b ", "a:b@c ", "://a:b", "password='", `\"password\":\"`, "[password:", "lookup a@", "%25", "@?a", "PASSWORD ",
		"://a:b ", "?password=a ", "-password", "://a@?b", "@", "(password=a) ", "\"", "cannot parse `", "{ 1 0x"} {
		text := strings.Repeat(unit, 200_000/len(unit))
		start := time.Now()
		_ = (*Redactor)(nil).String(text)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%v for %q", took, unit)
		} else {
			t.Log(unit, took)
		}
	}
}
