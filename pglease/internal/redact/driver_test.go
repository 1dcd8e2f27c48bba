package redact

import (
	"encoding/json"
	"os"
	"testing"
)

// The texts are real errors and configs of lib/pq v1.12.3 and pgx v5.13.0,
// gathered by giving both the DSN forms named in the file, on PostgreSQL 15.
func TestDriverTextsShowNoPassword_X1(t *testing.T) {
	const password = "Tr0ub4dor&3x"
	raw, err := os.ReadFile("testdata/driver_texts.json")
	if err != nil {
		t.Fatal(err)
	}
	var texts []struct{ Driver, Form, Verb, Text string }
	if err := json.Unmarshal(raw, &texts); err != nil {
		t.Fatal(err)
	}
	var r *Redactor
	for _, text := range texts {
		t.Run(text.Driver+"/"+text.Form+"/"+text.Verb, func(t *testing.T) {
			got := r.String(text.Text)
			if part := survivor(got, password); part != "" {
				t.Errorf("%q survives\n in %s\nfrom %s", part, got, text.Text)
			}
			if again := r.String(got); again != got {
				t.Errorf("not idempotent:\n%s\n%s", got, again)
			}
			t.Log(got)
		})
	}
}

// Found by giving both drivers hundreds of thousands of malformed DSNs.
func TestMalformedDSNsInDriverTexts_X1(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"URL over two lines", "cannot parse `postgres://app:xxxxx@hun\nter2@127.0.0.1:54x9/db`: invalid port", "cannot parse `postgres://app:xxxxx@127.0.0.1:54x9/db`: invalid port"},
		{"bare userinfo over two lines", "cannot parse `app:xxxxxx@hun\nter2@127.0.0.1/db`: failed", "cannot parse `app:xxxxx@127.0.0.1/db`: failed"},
		{"bare userinfo like a URL", `ConnString:"app://-hunter2@127.0.0.1/db", msg:`, `ConnString:"app:xxxxx@127.0.0.1/db", msg:`},
		{"URL cut at #", `&url.Error{Op:"parse", URL:"postgres://app:],hunter2", Err:x}`, `&url.Error{Op:"parse", URL:"postgres://app:xxxxx", Err:x}`},
		{"parameter over two lines", "missing key/value separator \"=\" in URI query parameter: \"hun\"\nter2\"", `missing key/value separator "=" in URI query parameter: "xxxxx`},
		{"key over two lines", "missing \"=\" after \"hun\\\" in\nter2\" in connection info string", `missing "=" after "xxxxx" in connection info string`},
		{"password without its =", "cannot parse `host=db password\nhun host=x ter2`: failed", "cannot parse `host=db password\nxxxxx`: failed"},
		{"password with blank and =", "cannot parse `host=db password=hun ter=2 port=x`: invalid port", "cannot parse `host=db password=xxxxx port=x`: invalid port"},
		{"password alone", "cannot parse `=@hunter=2`: failed", "cannot parse `xxxxx`: failed"},
		{"runtime parameter", "cannot parse `host=db my.param=1 sslmode=x password='a b'`: failed", "cannot parse `host=db my.param=1 sslmode=x password='xxxxx'`: failed"},
		{"two of them", "cannot parse `app:hun@h`: a; cannot parse `app:ter@h`: b", "cannot parse `app:xxxxx@h`: a; cannot parse `app:xxxxx@h`: b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := (*Redactor)(nil).String(tt.text)
			if got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
			if again := (*Redactor)(nil).String(got); again != got {
				t.Errorf("not idempotent: %s", again)
			}
		})
	}
}
