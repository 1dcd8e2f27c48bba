package main

import (
	"context"
	"strings"
	"testing"
)

// A patch that no longer applies guards nothing: "make mutants" takes minutes, this a second.
func TestEveryPatchAppliesToTheTree(t *testing.T) {
	all, err := read(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Errorf("there are %d mutants, want at least 10", len(all))
	}
	tree, err := copyTree(context.Background())
	if err != nil {
		t.Skip("not run: " + err.Error()) // a copy without git's data
	}
	defer tree.remove()
	for _, m := range all {
		if err := tree.apply(t.Context(), m); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if err := tree.restore(m); err != nil {
			t.Fatal(err)
		}
	}
}

const patch = `
diff --git a/x.go b/x.go
--- a/x.go
+++ b/x.go
@@ -1 +1 @@
-a
+b
`

func TestParse(t *testing.T) {
	m, err := parse("x", "Rule: a rule\nCheck: folder go test . -run ^TestName$/^sub$\nCheck: . go run ./torture\nSays: VIOLATION\n"+patch)
	if err != nil {
		t.Fatal(err)
	}
	if m.rule != "a rule" || len(m.checks) != 2 || strings.Join(m.files, " ") != "x.go" {
		t.Errorf("parsed %+v", m)
	}
	c := m.checks[0]
	if c.folder != "folder" || c.shown() != "`TestName/sub`" || !c.says.MatchString("--- FAIL: TestName (0.1s)") || c.says.MatchString("--- FAIL: TestName2") {
		t.Errorf("parsed %+v", c)
	}
	for what, text := range map[string]string{
		"no rule":               "Check: . go test . -run ^TestX$\n" + patch,
		"no check":              "Rule: a rule\n" + patch,
		"no patch":              "Rule: a rule\nCheck: . go test . -run ^TestX$\n",
		"a check without words": "Rule: a rule\nCheck: . make check\n" + patch,
		"another line":          "Rule: a rule\nCheck: . go test . -run ^TestX$\nAnd: more\n" + patch,
		"a bad expression":      "Rule: a rule\nCheck: . make check\nSays: (\n" + patch,
	} {
		if _, err := parse("x", text); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}
