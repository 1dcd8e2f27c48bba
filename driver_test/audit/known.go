package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/pglease/pglease-go/schema"
)

// Others are the statements that the sessions of a client may send besides the library's, and why.
var others = []struct {
	text   *regexp.Regexp
	reason string
}{
	{exactly(`(?i)begin( isolation level [a-z ]+)?( read (only|write))?`), "an application's transaction"},
	{exactly(`(?i)commit`), "an application's transaction"},
	{exactly(`(?i)rollback`), "an application's transaction"},
	{exactly(`;`), "lib/pq asks whether a connection works"},
	{exactly(`-- ping`), "pgx asks whether a connection works"},
}

func exactly(pattern string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + pattern + `)$`) }

// libraryTexts maps the library's statements to their names: the constants of package db, and the DDL of EnsureSchema. The
// constants are read from their source, since a program can't list a package's.
func libraryTexts(root string) (map[string]string, error) {
	texts := map[string]string{schema.Leases: "schema/001_leases.sql"}
	files, err := filepath.Glob(filepath.Join(root, "db", "*.sql.go"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("no package db in %s", root))
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			constants, ok := d.(*ast.GenDecl)
			if !ok || constants.Tok != token.CONST {
				continue
			}
			for _, s := range constants.Specs {
				spec := s.(*ast.ValueSpec)
				text, ok := literal(spec.Values[0])
				if !ok {
					return nil, fmt.Errorf("%s: %s is no plain text", name, spec.Names[0])
				}
				texts[text] = spec.Names[0].Name
			}
		}
	}
	return texts, nil
}

// demoTexts returns what can be a statement of the demo's own: every text in its source that begins like one. %d stands for
// a number.
func demoTexts(folder string) ([]*regexp.Regexp, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("no demo in %s", folder))
	}
	var texts []*regexp.Regexp
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			if text, ok := literal(e); ok && statement.MatchString(text) {
				texts = append(texts, exactly(strings.ReplaceAll(regexp.QuoteMeta(text), "%d", "[0-9]+")))
			}
			return true
		})
	}
	return texts, nil
}

var statement = regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP) `)

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}
