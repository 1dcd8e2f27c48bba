package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// clearEnv takes the variables away that pgx reads.
func clearEnv(t *testing.T) {
	for _, name := range []string{"PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE", "PGSERVICE", "PGPASSFILE", "PGSSLPASSWORD", "DATABASE_URL", "PGLEASE_DSN"} {
		t.Setenv(name, "")
	}
}

// X1, X2: no part of a password of four characters or more comes through, whatever the form and wherever it is wrong.
func FuzzParseHidesThePassword(f *testing.F) {
	for _, s := range []string{"geheim99", "p@ss/w?rd#1", "%zz%41", "a b'c\\d", "sslmode=1", "://@:5432"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, password string) {
		if len(password) < 4 || strings.ContainsRune(password, 0) {
			return
		}
		for _, dsn := range []string{"postgres://u:" + password + "@h:1/d", "postgres://u:" + password + "@h:x/d", "host=h port=x password=" + password,
			"host=h password='" + password, "postgres://h/d?password=" + password + "&sslmode=x", password} {
			_, err := parse("PGLEASE_DSN", dsn)
			if err == nil {
				continue
			}
			var e *exitError
			if !errors.As(err, &e) || e.code != codeUsage {
				t.Fatalf("%T %v", err, err)
			}
			own := ownWords + wrong("PGLEASE_DSN", "").Error()
			for i := 0; i+4 <= len(password); i++ {
				if part := password[i : i+4]; strings.Contains(err.Error(), part) && !strings.Contains(own, part) {
					t.Fatalf("%q shows %q", err, part)
				}
			}
		}
	})
}

// ownWords is what parse may say, whatever the password.
var ownWords = func() string {
	text := wantsEscape + " the scheme is neither postgres nor postgresql a file that it names cannot be read it cannot be read as a connection string"
	for _, p := range problems {
		text += " " + p.variable + ": " + p.words
	}
	return text
}()

// A setting that is wrong is named, and where it is from; an example of a URL helps only who has given one that cannot be read.
func TestParseNamesTheSetting(t *testing.T) {
	services := filepath.Join(t.TempDir(), "services")
	if err := os.WriteFile(services, []byte("[here]\nhost=h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		variable, value, dsn string
		want                 string
		url                  bool
	}{
		{"PGSERVICE", "nosuch", "", "PGSERVICE: the service was not found", false},
		{"PGSSLMODE", "bogus", "host=127.0.0.1", "PGSSLMODE: the sslmode is not valid: disable", false},
		{"PGSSLMODE", "bogus", "postgres://u@127.0.0.1/d?sslmode=wrong", "TEST: the sslmode is not valid", false},
		{"PGPORT", "x", "", "PGPORT: the port is not valid", false},
		{"PGSSLROOTCERT", "/nosuch/file", "host=h sslmode=verify-full", "PGSSLROOTCERT: the file of sslrootcert cannot be read", false},
		{"PGCHANNELBINDING", "x", "", "PGCHANNELBINDING: the channel_binding", false},
		{"", "", "postgres://u:geheim%zz99@h/d", "TEST: a % in it is not followed by two digits of a number to base 16: a % itself is to be written %25", false},
		{"", "", "postgres://u:gehe@im99@h:1/d", "TEST: " + wantsEscape, false},
		{"", "", "postgres://u:gehe@im:99@h/d", "TEST: " + wantsEscape, false},
		{"", "", "postgres://u:gehe/im99@h/d", "TEST: " + wantsEscape, false},
		{"", "", "geheim99", "TEST: it cannot be read as a connection string", true},
		{"", "", "mysql://u:geheim99@h/d", "TEST: the scheme", true},
	} {
		t.Run(tt.variable+tt.dsn, func(t *testing.T) {
			clearEnv(t)
			t.Setenv("PGSERVICEFILE", services)
			t.Setenv("PGSSLMODE", "prefer")
			if tt.variable != "" {
				t.Setenv(tt.variable, tt.value)
			}
			from := "TEST"
			if tt.dsn == "" {
				from = fromVariables
			}
			_, err := parse(from, tt.dsn)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "a URL is needed") != tt.url {
				t.Errorf("%v, not %q", err, tt.want)
			}
			for _, secret := range []string{"gehe", "im99"} {
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("%v shows %q", err, secret)
				}
			}
		})
	}
}

func TestParseKeepsWhatThePoolerNeeds(t *testing.T) {
	clearEnv(t)
	d, err := parse("--dsn", "postgres://u:s3cret99@h:1/d?default_query_exec_mode=simple_protocol&application_name=mine")
	if err != nil {
		t.Fatal(err)
	}
	if d.config.RuntimeParams["application_name"] != "mine" || d.config.DefaultQueryExecMode.String() != "simple protocol" {
		t.Errorf("%v %v", d.config.RuntimeParams, d.config.DefaultQueryExecMode)
	}
	if got := d.redact("x s3cret99 y"); got != "x xxxxx y" {
		t.Errorf("redacted: %q", got)
	}
	if d, err = parse("--dsn", "host=h dbname=d"); err != nil || d.config.DefaultQueryExecMode.String() != "exec" {
		t.Errorf("%v", err)
	}
}

func TestChildEnv(t *testing.T) {
	clearEnv(t)
	t.Setenv("PGLEASE_DSN", "postgres://u:geheim99@h/d")
	t.Setenv("PGLEASE_NAME", "outer")
	t.Setenv("KEPT", "yes")
	for _, keep := range []bool{false, true} {
		env := "\n" + strings.Join(childEnv(keep, "PGLEASE_NAME=inner"), "\n") + "\n"
		if strings.Contains(env, "PGLEASE_DSN") != keep || strings.Contains(env, "\nDATABASE_URL=") != keep {
			t.Errorf("keep %t: %s", keep, env)
		}
		if strings.Contains(env, "outer") || !strings.Contains(env, "\nPGLEASE_NAME=inner\n") || !strings.Contains(env, "\nKEPT=yes\n") {
			t.Errorf("keep %t: %s", keep, env)
		}
	}
}

// W2: the moment of the kill lies before the end of the TTL, whatever the flags, and three heartbeats fit before the loss.
func TestBudget(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 1500 * time.Millisecond, 4 * time.Second, 30 * time.Second, time.Hour} {
		for _, grace := range []time.Duration{0, ttl / 10, ttl / 3, ttl / 2} {
			o := &runOptions{ttl: ttl, grace: grace, command: []string{"true"}}
			if err := o.check(); err != nil && !strings.Contains(err.Error(), "not found") {
				t.Fatal(err)
			}
			kill := ttl - o.margin() + grace
			if left := ttl - kill; left < 100*time.Millisecond || left != o.slack() {
				t.Errorf("ttl %v, grace %v: the kill leaves %v of the TTL", ttl, grace, left)
			}
			if trust := ttl - o.margin(); trust < 3*ttl/10 {
				t.Errorf("ttl %v, grace %v: trust for %v only", ttl, grace, trust)
			}
		}
		if err := (&runOptions{ttl: ttl, grace: ttl/2 + 1, command: []string{"true"}}).check(); err == nil {
			t.Errorf("ttl %v: a grace of more than half of it was accepted", ttl)
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"job": "job", "häuser/7": "häuser/7", `say "hi"`: `say "hi"`, "a\x1b[2Jb": `a\x1b[2Jb`, "a\nb": `a\nb`, "\u202eabc": `\u202eabc`,
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}
