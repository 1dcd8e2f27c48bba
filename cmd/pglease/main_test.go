package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// run runs a command line and returns its exit code and all that it wrote.
func run(t *testing.T, args ...string) (code int, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "output")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, errs := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = f, f
	defer func() { os.Stdout, os.Stderr = out, errs }()
	code = execute(args)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return code, string(b)
}

// A word that is no command, or has no place, is refused; what is asked for its help gives it.
func TestWordsThatAreNotKnown(t *testing.T) {
	for _, tt := range []struct {
		line string
		code int
		says string
	}{
		{"klingon", codeUsage, `unknown command "klingon" for "pglease"`},
		{"schema klingon", codeUsage, `unknown command "klingon" for "pglease schema"`},
		{"completion klingon", codeUsage, `unknown command "klingon" for "pglease completion"`},
		{"completion bash extra", codeUsage, `"pglease completion bash" takes no arguments`},
		{"help klingon", codeUsage, `no command "klingon" to help with`},
		{"help schema klingon", codeUsage, `no command "schema klingon" to help with`},
		{"list extra", codeUsage, `"pglease list" takes no arguments, and there is "extra"`},
		{"schema", codeOK, "Usage:\n  pglease schema"},
		{"help", codeOK, "Usage:\n  pglease"},
		{"help schema print", codeOK, "Usage:\n  pglease schema print"},
		{"completion", codeOK, "pglease completion [command]"},
		{"completion bash", codeOK, "bash completion"},
	} {
		if code, text := run(t, strings.Fields(tt.line)...); code != tt.code || !strings.Contains(text, tt.says) {
			t.Errorf("pglease %s: exit code %d, %.300q", tt.line, code, text)
		}
	}
}

func TestVersionIsAFlagToo(t *testing.T) {
	code, text := run(t, "version")
	flagCode, flagText := run(t, "--version")
	if code != codeOK || flagCode != codeOK || text != flagText || !strings.HasPrefix(text, "pglease ") {
		t.Errorf("version: %d %q; --version: %d %q", code, text, flagCode, flagText)
	}
}
