// Command mutants checks the checks: it takes one rule at a time out of a copy of the library, by a patch in this folder, and
// demands that the check which is to guard that rule fails, and fails by itself: a mutant that does not apply or does not
// compile, a check that fails without the mutant, or for another reason, count as failures of this program. Run it with
// "make mutants". It needs git, and what the checks need: a PostgreSQL server, or its binaries.
//
// A patch begins with lines that say what it is:
//
//	Rule: what no longer holds
//	Check: FOLDER COMMAND ...
//	Says: regular expression
//
// Check may stand several times, each followed by its Says, which the output of the failed check has to match. For "go test
// ... -run ^TestName$" it may be left out: then it is the line with which Go reports that test as failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

var (
	only  = flag.String("only", "", "regular expression for the names of the mutants to try")
	sound = flag.Bool("sound", true, "see first that every check succeeds without a mutant")
)

// checkLimit is how long one check may take. It is to be seen to fail, which a check that hangs is not.
const checkLimit = 3 * time.Minute

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	all, err := read("mutants")
	if err != nil {
		return err
	}
	var chosen []*mutant
	for _, m := range all {
		if pattern.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant is called like %q", *only)
	}
	t, err := copyTree(ctx)
	if err != nil {
		return err
	}
	defer t.remove()
	if *sound {
		if err := t.soundChecks(ctx, chosen); err != nil {
			return err
		}
	}
	fmt.Println("| mutant | removed rule | caught by | in s |\n|---|---|---|---|")
	var failed []error
	for _, m := range chosen {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := t.try(ctx, m); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d mutants failed:\n%w", len(failed), len(chosen), errors.Join(failed...))
	}
	fmt.Printf("\nall %d mutants were caught\n", len(chosen))
	return nil
}

// soundChecks runs every check once on the library as it is.
func (t *tree) soundChecks(ctx context.Context, all []*mutant) error {
	seen := make(map[string]bool)
	for _, m := range all {
		for _, c := range m.checks {
			if seen[c.text] {
				continue
			}
			seen[c.text] = true
			began := time.Now()
			if output, err := t.perform(ctx, c); err != nil {
				return fmt.Errorf("%s fails without a mutant: %w\n%s", c.text, err, tail(output))
			}
			fmt.Fprintf(os.Stderr, "sound: %s (%.0f s)\n", c.text, time.Since(began).Seconds())
		}
	}
	return nil
}

// try applies a mutant, demands that each of its checks catches it, prints its rows of the table, and takes it back.
func (t *tree) try(ctx context.Context, m *mutant) (err error) {
	if err := t.apply(ctx, m); err != nil {
		fmt.Printf("| %s | %s | **does not apply** | |\n", m.name, m.rule)
		return err
	}
	defer func() { err = errors.Join(err, t.restore(m)) }()
	var errs []error
	for _, c := range m.checks {
		began := time.Now()
		err := t.catch(ctx, c)
		by := c.shown()
		if err != nil {
			by = "**not caught** by " + by
			errs = append(errs, err)
		}
		fmt.Printf("| %s | %s | %s | %.0f |\n", m.name, m.rule, by, time.Since(began).Seconds())
	}
	return errors.Join(errs...)
}

// catch returns nil if the check fails, in the way it should.
func (t *tree) catch(ctx context.Context, c check) error {
	output, err := t.perform(ctx, c)
	switch {
	case err == nil:
		return fmt.Errorf("%s: survived", c.text)
	case strings.Contains(output, "[build failed]") || strings.Contains(output, "[setup failed]"):
		return fmt.Errorf("%s: does not compile:\n%s", c.text, tail(output))
	case !c.says.MatchString(output):
		return fmt.Errorf("%s: failed, but not with %q: %w\n%s", c.text, c.says, err, tail(output))
	}
	return nil
}

func tail(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return "    " + strings.Join(lines[max(0, len(lines)-30):], "\n    ")
}

// read reads the patches of a folder, in the order of their names.
func read(folder string) (all []*mutant, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m, err := parse(strings.TrimSuffix(filepath.Base(file), ".patch"), string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, m)
	}
	return all, nil
}
