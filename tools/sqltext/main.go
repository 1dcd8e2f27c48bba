// Sqltext finds SQL in the string literals of Go files: every statement of the library stands in queries/.
//
//	go run tools/sqltext/main.go DIR...
//
// It reads the files directly in each DIR, tests apart, prints the literals that look like a statement, and exits with 1
// if there are any.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// statement matches upper-case SQL anywhere, and in any case what English hardly says.
var statement = regexp.MustCompile(`\b(SELECT|INSERT INTO|DELETE FROM|UPDATE \S+ SET|CREATE (TABLE|INDEX|SCHEMA)|ALTER TABLE|DROP (TABLE|INDEX)|` +
	`TRUNCATE|LOCK TABLE|FOR UPDATE|FOR KEY SHARE|SET (LOCAL|SESSION)|SAVEPOINT|VALUES *\()` +
	`|(?i:\bselect\b.+\bfrom\b|\binsert into\b|\bdelete from\b|\bupdate \S+ set\b|\bpg_[a-z_]+ *\(|^\s*(begin|commit|rollback|discard all)\s*;?\s*$)` +
	`|^\s*(SET|SHOW|RESET|LISTEN|UNLISTEN|NOTIFY|BEGIN|DECLARE|FETCH|EXPLAIN|GRANT|REVOKE)\s`)

func main() {
	found := false
	files := token.NewFileSet()
	for _, dir := range os.Args[1:] {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(names) == 0 {
			fmt.Println(dir, "has no Go files", err)
			found = true
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
			if err != nil {
				fmt.Println(err)
				found = true
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				if text, err := strconv.Unquote(lit.Value); err == nil && statement.MatchString(text) {
					fmt.Printf("%s: SQL outside queries/: %s\n", files.Position(lit.Pos()), lit.Value)
					found = true
				}
				return true
			})
		}
	}
	if found {
		os.Exit(1)
	}
}
