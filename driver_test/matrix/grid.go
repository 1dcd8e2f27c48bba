package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A row is what was seen of one version.
type row struct {
	major   int
	version string // such as 15.18
	notRun  string // why nothing of it was run
	err     error
	took    time.Duration
	tests   []test
}

// A test is one that has no subtests, and how it ended.
type test struct {
	name, ending string // pass, fail, skip
	output       string
}

// An event is a line of go test -json; see go doc test2json.
type event struct{ Action, Test, Output string }

// The columns of the grid, and where their tests stand; %s is the driver.
var columns = []struct{ title, tests string }{
	{"table, direct", "TestConformance/table/%s/"},
	{"table, PgBouncer session", "TestPoolerConformance/session/table/%s"},
	{"table, PgBouncer transaction", "TestPoolerConformance/transaction/table/%s"},
	{"hybrid, direct", "TestHybridConformance/%s/"},
	{"hybrid, PgBouncer session", "TestPoolerConformance/session/hybrid/%s"},
	{"hybrid, PgBouncer transaction: refused", "TestPoolerConformance/transaction/hybrid/%s"},
}

var drivers = []struct{ title, name string }{{"lib/pq", "pq"}, {"pgx", "pgx"}}

// run runs the compiled tests on a server of bin.
func (r *row) run(ctx context.Context, tests, bin, pattern string) {
	cmd := exec.CommandContext(ctx, tests, "-test.v=test2json", "-test.run="+pattern, "-test.parallel="+strconv.Itoa(*parallel),
		"-test.timeout="+(versionLimit-time.Minute).String())
	// The server is to be that of bin, not one that runs already. What interrupted tests leave goes with the folder of tests.
	cmd.Env = append(os.Environ(), "PGLEASE_TEST_BIN="+bin, "PGLEASE_TEST_DSN=", "TMPDIR="+filepath.Dir(tests))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	out, failed := cmd.CombinedOutput()
	if ctx.Err() != nil {
		failed = errors.Join(context.Cause(ctx), failed)
	}
	if *output != "" {
		if err := os.WriteFile(filepath.Join(*output, r.version+".log"), out, 0o644); err != nil {
			r.err = err
			return
		}
	}
	convert := exec.CommandContext(context.WithoutCancel(ctx), "go", "tool", "test2json")
	convert.Stdin = bytes.NewReader(out)
	events, err := convert.Output()
	if err != nil {
		r.err = fmt.Errorf("go tool test2json: %w", err)
		return
	}
	r.read(events)
	if !strings.Contains(string(out), fmt.Sprintf("PostgreSQL %d, from %s", r.major, bin)) {
		r.err = fmt.Errorf("it was not that version that ran: %w\n%s", failed, tail(string(out)))
		return
	}
	if failed != nil {
		text := ""
		for _, t := range r.tests {
			if t.ending == "fail" {
				text += t.name + "\n" + tail(t.output) + "\n"
			}
		}
		if text == "" {
			text = tail(string(out))
		}
		r.err = fmt.Errorf("%w\n%s", failed, text)
	}
}

// read takes the tests without subtests out of the events of all.
func (r *row) read(events []byte) {
	outputs := make(map[string]string)
	var ended []test
	parents := make(map[string]bool)
	for lines := bufio.NewScanner(bytes.NewReader(events)); lines.Scan(); {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Test == "" {
			continue
		}
		switch e.Action {
		case "run":
			for at, c := range e.Test {
				if c == '/' {
					parents[e.Test[:at]] = true
				}
			}
		case "output":
			outputs[e.Test] += e.Output
		case "pass", "fail", "skip":
			ended = append(ended, test{e.Test, e.Action, outputs[e.Test]})
		}
	}
	for _, t := range ended {
		// A parent that failed may have said something of its own, such as what was left on the server.
		if !parents[t.name] || t.ending == "fail" && strings.Contains(t.output, "_test.go:") {
			r.tests = append(r.tests, t)
		}
	}
}

// cell counts the tests below a prefix.
func (r row) cell(prefix string) string {
	if r.notRun != "" {
		return "not run: " + r.notRun
	}
	var passed, failed int
	skipped := ""
	for _, t := range r.tests {
		if !within(t.name, prefix) {
			continue
		}
		switch t.ending {
		case "pass":
			passed++
		case "fail":
			failed++
		case "skip":
			_, skipped, _ = strings.Cut(t.output, "not run: ")
			skipped, _, _ = strings.Cut(skipped, "\n")
		}
	}
	switch {
	case failed > 0:
		return fmt.Sprintf("**FAILED** %d of %d", failed, passed+failed)
	case skipped != "":
		return "not run: " + skipped
	case passed > 0:
		return fmt.Sprintf("ran %d", passed)
	case r.err != nil:
		return "**FAILED**"
	}
	return "not run: short"
}

// within says whether name is prefix or below it: pq is not pqx.
func within(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, strings.TrimSuffix(prefix, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

func (r row) verdict() string {
	switch {
	case r.notRun != "":
		return "not run: " + r.notRun
	case r.err != nil:
		return "FAILED"
	}
	return fmt.Sprintf("ran %d", len(r.tests))
}

func printGrid(rows []row) {
	head, line := "| PostgreSQL | driver |", "|---|---|"
	for _, c := range columns {
		head += " " + c.title + " |"
		line += "---|"
	}
	fmt.Println(head + "\n" + line)
	for _, r := range rows {
		for _, d := range drivers {
			text := fmt.Sprintf("| %s | %s |", r.version, d.title)
			for _, c := range columns {
				text += " " + r.cell(fmt.Sprintf(c.tests, d.name)) + " |"
			}
			fmt.Println(text)
		}
	}
}

func tail(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return "    " + strings.Join(lines[max(0, len(lines)-25):], "\n    ")
}
