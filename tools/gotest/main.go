// Gotest runs go test in several modules and says in the end what did not run.
//
//	go run tools/gotest/main.go [-flag[=value] of go test ...] DIR...
//
// For each DIR, a module, it runs "go test [flags] ./..." there, with -race if this machine can. It prints what go test
// without -v prints, and besides every skipped test with its reason, which go test keeps to itself. The last lines say again what
// failed, each with "failed: " before it, and count tests, subtests included, and as one failure each package that failed without
// one. It exits with 1 if anything failed, or if nothing ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// An event is a line of go test -json; see go doc test2json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

type summary struct {
	passed, failed, skipped int
	packages                int
	notRun                  []string
	failures                []string
}

func main() {
	var flags, dirs []string
	for _, arg := range os.Args[1:] {
		if strings.HasPrefix(arg, "-") {
			flags = append(flags, arg)
		} else {
			dirs = append(dirs, arg)
		}
	}
	var s summary
	// A small package of the standard library tells whether the race detector can be had: it needs cgo on most systems.
	if out, err := exec.Command("go", "build", "-race", "errors").CombinedOutput(); err == nil {
		flags = append(flags, "-race")
	} else {
		s.notRun = append(s.notRun, "race detector: not run: "+strings.Join(strings.Fields(string(out)), " "))
	}
	for _, dir := range dirs {
		s.module(dir, flags)
	}
	for _, line := range s.notRun {
		fmt.Println(line)
	}
	for _, line := range s.failures {
		fmt.Println("failed: " + line)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	if s.failed > 0 || s.packages == 0 {
		os.Exit(1)
	}
}

func (s *summary) module(dir string, flags []string) {
	fmt.Printf("== go test %s ./... (in %s)\n", strings.Join(flags, " "), dir)
	cmd := exec.Command("go", slices.Concat([]string{"test", "-json"}, flags, []string{"./..."})...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Println("FAIL", dir, err)
		s.failed++
		return
	}
	failed := s.failed
	s.read(bufio.NewReader(out))
	if err := cmd.Wait(); err != nil && s.failed == failed {
		fmt.Println("FAIL", dir, err)
		s.failed++
	}
}

// read follows one go test. Packages run side by side, so everything is kept by package and test until it is known
// whether anybody wants to see it.
func (s *summary) read(r *bufio.Reader) {
	packages := map[string]*packageRun{}
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				fmt.Print(string(line)) // go test itself has something to say
			} else {
				s.take(e, packages)
			}
		}
		if err != nil {
			return
		}
	}
}

// A packageRun is a package whose tests run.
type packageRun struct {
	began  time.Time
	output map[string]*strings.Builder // of tests that have not ended, and under "" of the package
	failed bool                        // a test of it has
}

func (s *summary) take(e event, packages map[string]*packageRun) {
	p := packages[e.Package]
	if p == nil {
		p = &packageRun{began: time.Now(), output: map[string]*strings.Builder{}}
		packages[e.Package] = p
	}
	switch e.Action {
	case "build-output":
		fmt.Print(e.Output)
	case "output":
		if e.Test == "" && !frame(e.Output) {
			fmt.Print(e.Output)
			return
		}
		if p.output[e.Test] == nil {
			p.output[e.Test] = &strings.Builder{}
		}
		p.output[e.Test].WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.packageEnded(e, p)
			delete(packages, e.Package)
			return
		}
		text := p.output[e.Test]
		delete(p.output, e.Test)
		switch e.Action {
		case "pass":
			s.passed++
		case "skip":
			s.skipped++
			s.notRun = append(s.notRun, e.Test+": "+reason(text))
		case "fail":
			s.failed++
			p.failed = true
			s.show(text)
		}
	}
}

// packageEnded prints what go test prints for a package. Tests that have no end of their own were cut off.
func (s *summary) packageEnded(e event, p *packageRun) {
	took := time.Since(p.began).Seconds()
	switch e.Action {
	case "pass":
		s.packages++
		fmt.Printf("ok  \t%s\t%.1fs\n", e.Package, took)
	case "fail":
		s.packages++
		for test, text := range p.output {
			if test == "" {
				for line := range strings.Lines(text.String()) {
					if strings.HasPrefix(line, "-test.shuffle") {
						fmt.Print(line)
					}
				}
				continue
			}
			s.failures = append(s.failures, test+" was cut off")
			s.show(text)
		}
		if !p.failed {
			s.failed++
			s.failures = append(s.failures, e.Package+": not by a test that ended")
		}
		fmt.Printf("FAIL\t%s\t%.1fs\n", e.Package, took)
	}
}

// mostLines is how many lines of a test that failed are said again at the end.
const mostLines = 12

// show prints what a test said that failed, without the lines that tell when it was running.
func (s *summary) show(text *strings.Builder) {
	if text == nil {
		return
	}
	n := 0
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "=== ") {
			continue
		}
		fmt.Print(line)
		if n++; n <= mostLines {
			s.failures = append(s.failures, strings.TrimRight(line, "\n"))
		}
	}
}

// frame reports whether a line of a package is one that this program replaces, or that only a failure makes interesting.
func frame(line string) bool {
	for _, start := range []string{"PASS", "ok ", "FAIL", "?", "testing: warning: no tests to run", "-test.shuffle"} {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	return false
}

// reason is what a skipped test said, without where it said it.
func reason(text *strings.Builder) string {
	if text == nil {
		return "skipped without a reason"
	}
	for line := range strings.Lines(text.String()) {
		if _, why, ok := strings.Cut(line, "not run: "); ok {
			return "not run: " + strings.TrimSpace(why)
		}
	}
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			return "skipped: " + line
		}
	}
	return "skipped without a reason"
}
