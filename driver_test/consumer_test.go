package driver_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Who imports the library gets no driver and no test server with it: neither into go.mod nor into go.sum.
func TestConsumerGetsNoDriver(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/consumer\n\ngo 1.25.0\n\n" +
			"require github.com/pglease/pglease-go v0.0.0\n\nreplace github.com/pglease/pglease-go => " + filepath.ToSlash(root) + "\n",
		"main.go": "package main\n\nimport \"github.com/pglease/pglease-go/pglease\"\n\nfunc main() { _, _ = pglease.New(nil) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"mod", "tidy"}, {"build", "-o", os.DevNull, "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	unwanted := regexp.MustCompile(`(?m)^.*(lib/pq|jackc/|dockertest|embedded-postgres|driver_test).*$`)
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if found := unwanted.FindAllString(string(text), -1); found != nil {
			t.Errorf("%s of a consumer has\n%s", name, strings.Join(found, "\n"))
		}
	}
}
