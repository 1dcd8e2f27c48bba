package pgserver

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
)

// Binaries returns the directories with server binaries in the places where packages put them, newest version first;
// PATH and PGLEASE_TEST_BIN are not among them.
func Binaries() []string {
	var dirs []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",          // Debian
		"/usr/pgsql-*/bin",                   // PostgreSQL's own RPMs
		"/opt/homebrew/opt/postgresql@*/bin", // Homebrew on ARM
		"/usr/local/opt/postgresql@*/bin",    // Homebrew on Intel
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		`C:\Program Files\PostgreSQL\*\bin`,
	} {
		found, _ := filepath.Glob(pattern) // the patterns are well formed, the only error there is
		for _, dir := range found {
			if checkBinaries(dir) == nil {
				dirs = append(dirs, dir)
			}
		}
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(majorOf(b), majorOf(a)) })
	return dirs
}

var digits = regexp.MustCompile(`[0-9]+`)

// majorOf reads the version from a directory such as /usr/lib/postgresql/15/bin; 0 if it shows none.
func majorOf(dir string) int {
	major, _ := strconv.Atoi(digits.FindString(filepath.Base(filepath.Dir(dir))))
	return major
}

// findBinaries takes what was asked for even if something else would work: another version in its place would go
// unnoticed.
func findBinaries(c *config) (string, error) {
	for _, asked := range []string{c.bin, os.Getenv("PGLEASE_TEST_BIN")} {
		if asked != "" {
			return asked, checkBinaries(asked)
		}
	}
	if dir, ok := pathBinaries(); ok {
		return dir, nil
	}
	if dirs := Binaries(); len(dirs) > 0 {
		return dirs[0], nil
	}
	return "", fmt.Errorf("no initdb and postgres in PGLEASE_TEST_BIN, PATH or the usual places")
}

// pathBinaries follows links: a directory of PATH often has links to some of the programs, and the others, such as
// pg_basebackup, are where the links point to.
func pathBinaries() (string, bool) {
	path, err := exec.LookPath(executable("postgres"))
	if err != nil {
		return "", false
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", false
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	return dir, err == nil && checkBinaries(dir) == nil
}

func checkBinaries(dir string) error {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := os.Stat(filepath.Join(dir, executable(name))); err != nil {
			return fmt.Errorf("no server binaries: %w", err)
		}
	}
	return nil
}

func executable(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}
