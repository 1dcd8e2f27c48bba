// Command audit has a server write down every statement that it is sent, runs the conformance suite of both backends with all
// drivers and the demo in both modes, and compares what the sessions of the library sent with what stands in queries/ and
// schema/, text for text. It prints how often each statement was sent, and which was not; it exits with 1 if a session of the
// library sent anything else, or a test or the demo failed. Run it with "make audit", in driver_test.
//
// A session of the tests that belongs to a client is known by its application_name, which is that of its test; those of the
// tests themselves, which make and spoil rows, have other names. The sessions of the demo also do the demo's job: its
// statements are those that stand in the demo's source.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
)

var tests = flag.String("run", "^TestConformance$|^TestHybridConformance$|^TestAuditWhatTheSuiteDoesNotSend$", "the tests to run")

const (
	limit   = 15 * time.Minute
	demoApp = "pglease-audit-demo"
	marker  = "SELECT 'the end of the audit'"
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it has not ended within %v", limit))
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "audit:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	texts, err := libraryTexts("..")
	if err != nil {
		return err
	}
	job, err := demoTexts("demo")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "pglease-audit-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o777); err != nil { // the server may be another user's
		return err
	}
	version, ran := runOnServer(ctx, dir)
	file, err := os.Open(filepath.Join(dir, "audit.csv"))
	if err != nil {
		return errors.Join(ran, err)
	}
	defer file.Close()
	a := newAudit(texts, job)
	if err := a.read(file); err != nil {
		return errors.Join(ran, err)
	}
	fmt.Printf("%s, PostgreSQL %d, %s, %d cores\n\n", time.Now().Format(time.DateOnly), version, runtime.Version(), runtime.NumCPU())
	a.print(os.Stdout)
	return errors.Join(ran, a.fault())
}

// runOnServer runs everything on a server that logs to dir.
func runOnServer(ctx context.Context, dir string) (version int, err error) {
	server, err := pgserver.Start(ctx, pgserver.WithKinds(pgserver.Local), setting("logging_collector", "on"),
		setting("log_destination", "csvlog"), setting("log_directory", dir), setting("log_filename", "audit.log"),
		setting("log_file_mode", "0644"), setting("log_rotation_age", "0"), setting("log_rotation_size", "0"),
		// The first logs what is executed before it is; the second also what is prepared and never executed.
		setting("log_statement", "all"), setting("log_min_duration_statement", "0"), setting("log_min_error_statement", "error"),
		setting("log_parameter_max_length", "0"), setting("max_prepared_transactions", "20"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if version, err = server.Version(ctx); err != nil {
		return 0, err
	}
	dsn := "PGLEASE_TEST_DSN=" + server.DSN()
	err = program(ctx, []string{dsn}, "go", "test", "-count=1", "-run", *tests, ".")
	dsn = "PGLEASE_TEST_DSN=" + server.DSN(pgserver.Param("application_name", demoApp))
	for _, mode := range []string{"PGLEASE_DEMO_HYBRID=", "PGLEASE_DEMO_HYBRID=1"} {
		err = errors.Join(err, program(ctx, []string{dsn, mode}, "go", "run", "./demo"))
	}
	return version, errors.Join(err, flushed(ctx, server.DSN(), filepath.Join(dir, "audit.csv")))
}

func setting(name, value string) pgserver.Option { return pgserver.WithSetting(name, value) }

// program runs a program that uses the server, and shows what it prints only if it fails.
func program(ctx context.Context, env []string, name string, args ...string) error {
	began := time.Now()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	what := strings.Join(append([]string{name}, args...), " ")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", what, err, out)
	}
	fmt.Fprintf(os.Stderr, "audit: %s: ok (%.0f s)\n", what, time.Since(began).Seconds())
	return nil
}

// flushed returns when the log contains all that was sent until now: the server writes it in order, but later.
func flushed(ctx context.Context, dsn, file string) error {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, marker); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		if found, err := endsWithMarker(file); found || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("the server's log does not come to its end")
		case <-tick.C:
		}
	}
}

func endsWithMarker(file string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	end := make([]byte, min(info.Size(), 1<<16))
	_, err = f.ReadAt(end, info.Size()-int64(len(end)))
	return strings.Contains(string(end), marker), err
}
