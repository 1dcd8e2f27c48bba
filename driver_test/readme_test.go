package driver_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// aroundReadme is what the README's blocks of Go find around them.
const aroundReadme = `package readme

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pglease/pglease-go/pglease"
)

var (
	_ = sql.Open
	_ = errors.Is
	_ = log.Printf
	_ = os.Getenv
	_ = signal.NotifyContext
	_ = syscall.SIGTERM
	_ = time.Second
	_ = pgxpool.New
	_ = stdlib.OpenDBFromPool

	ctx      context.Context
	db       *sql.DB
	client   *pglease.Client
	report   func(context.Context) error
	schedule func(context.Context) error
	lead     func(context.Context, *pglease.Lease) error
)

func block() error {
%s
	return nil
}
`

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The README's code is code: every block of Go compiles, in a function that returns an error.
func TestReadmeCompiles(t *testing.T) {
	blocks := goBlock.FindAllStringSubmatch(readme(t), -1)
	if len(blocks) == 0 {
		t.Fatal("no code in the README")
	}
	if n := strings.Count(blocks[0][1], "\n"); n > 15 {
		t.Errorf("the first block has %d lines, more than 15", n)
	}
	compile(t, blocks)
}

// So is that of the page for people who come from Python.
func TestPythonPageCompiles(t *testing.T) {
	page, err := os.ReadFile("../docs/python.md")
	if err != nil {
		t.Fatal(err)
	}
	compile(t, goBlock.FindAllStringSubmatch(string(page), -1))
}

// compile compiles each block in a package of its own. The packages exist in an overlay only, so they are part of this module
// without a file in it.
func compile(t *testing.T, blocks [][]string) {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	args := []string{"build", "-overlay", filepath.Join(dir, "overlay.json")}
	for n, block := range blocks {
		source := fmt.Sprintf(aroundReadme, block[1])
		pkg := fmt.Sprintf("readme%d", n+1)
		file := filepath.Join(dir, pkg+".go")
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(here, pkg, "block.go")] = file
		args = append(args, "./"+pkg)
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Errorf("the page's code does not compile: %v\n%s", err, out)
	}
}

// The README is short, and what it tells people to run exists.
func TestReadmeKeepsItsWord(t *testing.T) {
	text := readme(t)
	if n := strings.Count(text, "\n"); n > 250 {
		t.Errorf("the README has %d lines, more than 250", n)
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`make ([a-z-]+)").FindAllStringSubmatch(text, -1) {
		if !strings.Contains(string(makefile), "\n"+m[1]+":") {
			t.Errorf("the README names make %s, which the Makefile does not have", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
			t.Errorf("the README's link leads nowhere: %v", err)
		}
	}
}
