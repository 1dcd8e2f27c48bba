package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestEveryVersionHasAPinnedBuild(t *testing.T) {
	for major := 13; major <= 18; major++ {
		if b := builds[major]; b.version == "" || len(b.integrity) != len("sha512-")+88 {
			t.Errorf("%d: %+v", major, b)
		}
	}
}

func TestLinksOfAPackageStayInIt(t *testing.T) {
	for links, ok := range map[string]bool{
		`[{"source":"native/lib/a.so.1.2","target":"native/lib/a.so.1"}]`: true,
		`[{"source":"native/lib/a.so.1.2","target":"../a.so"}]`:           false,
		`[{"source":"/etc/passwd","target":"native/lib/a.so"}]`:           false,
	} {
		root := t.TempDir()
		for name, text := range map[string]string{"lib/a.so.1.2": "library", "bin/postgres": "program", "pg-symlinks.json": links} {
			path := filepath.Join(root, "native", name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := link(root); (err == nil) != ok {
			t.Errorf("%s: %v", links, err)
		}
		if !ok {
			continue
		}
		if text, err := os.ReadFile(filepath.Join(root, "native", "lib", "a.so.1")); string(text) != "library" {
			t.Errorf("through the link: %q, %v", text, err)
		}
		if info, err := os.Stat(filepath.Join(root, "native", "bin", "postgres")); runtime.GOOS != "windows" && (err != nil || info.Mode().Perm()&0o111 == 0) {
			t.Errorf("the program can't be run: %v, %v", info, err)
		}
	}
}
