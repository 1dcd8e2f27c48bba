package pglease_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every exported function has an example, and every exported method, its own or, for what errors and kinds of event say of
// themselves, that of its type.
func TestEveryExportedFunctionHasAnExample(t *testing.T) {
	for _, dir := range []string{".", "pgleasetest"} {
		exported, examples := map[string]string{}, map[string]bool{}
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if !ok {
					continue
				}
				if strings.HasSuffix(name, "_test.go") {
					examples[strings.TrimPrefix(f.Name.Name, "Example")] = strings.HasPrefix(f.Name.Name, "Example")
				} else if receiver := receiverOf(f); f.Name.IsExported() && receiver == "" {
					exported[f.Name.Name] = f.Name.Name
				} else if f.Name.IsExported() && ast.IsExported(receiver) {
					exported[receiver+"_"+f.Name.Name] = receiver
				}
			}
		}
		if len(exported) == 0 || len(examples) == 0 {
			t.Errorf("%s: %d functions and %d examples", dir, len(exported), len(examples))
		}
		for name, receiver := range exported {
			ofType := slices.Contains([]string{"HeldError", "LostError", "BackendError", "UnsupportedError", "EventKind"}, receiver)
			backend := dir == "pgleasetest" && ofBackend[strings.TrimPrefix(name, "Memory_")] // Memory's half for the library
			if !examples[name] && !(ofType && examples[receiver]) && !backend {
				t.Errorf("%s: there is no Example%s", dir, name)
			}
		}
	}
}

// ofBackend are the methods of a Backend, which an application does not call.
var ofBackend = map[string]bool{
	"EnsureSchema": true, "Acquire": true, "Withdraw": true, "Renew": true, "Release": true, "Forget": true, "Check": true,
	"CheckQuery": true, "Get": true, "List": true, "ForceRelease": true, "DeleteExpired": true, "Close": true,
}

func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if ident, ok := of.(*ast.Ident); ok {
		return ident.Name
	}
	return "unknown"
}
