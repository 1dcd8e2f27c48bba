package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// An audit is what was found in a server's log.
type audit struct {
	texts map[string]string // the library's, with their names
	job   []*regexp.Regexp  // the demo's own

	rows    map[string]int            // rows of the log with a statement of a session that is looked at, by source
	sent    map[string]map[string]int // executed statements, by name and source
	besides map[string]map[string]int // others, by text and source
	foreign map[string]int            // what should not be there
	skipped map[string]int            // statements of sessions that are not looked at, by kind
}

// Sources of statements.
const (
	suite = "suite"
	demo  = "demo"
)

func newAudit(texts map[string]string, job []*regexp.Regexp) *audit {
	return &audit{
		texts: texts, job: job,
		rows: map[string]int{}, sent: map[string]map[string]int{}, besides: map[string]map[string]int{},
		foreign: map[string]int{}, skipped: map[string]int{},
	}
}

// Columns of a row of the log; they are at the same place in all versions since 13.
const (
	columnDatabase = 2
	columnMessage  = 13
	columnQuery    = 19
	columnApp      = 22
)

func (a *audit) read(log io.Reader) error {
	r := csv.NewReader(log)
	r.FieldsPerRecord = -1
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the server's log: %w", err)
		}
		if len(row) <= columnApp {
			return fmt.Errorf("the server's log: a row of %d columns", len(row))
		}
		text, executed, ok := statementOf(row[columnMessage], row[columnQuery])
		if !ok {
			continue
		}
		a.see(row[columnApp], row[columnDatabase], text, executed)
	}
}

var logged = regexp.MustCompile(`(?s)^(?:duration: [0-9.]+ ms  )?(statement|parse|bind|execute)(?: (?:fetch from )?[^ :]+)?: (.*)$`)

// statementOf finds the text in a row of the log: what is executed, what was prepared, or what an error is about.
func statementOf(message, query string) (text string, executed, ok bool) {
	if m := logged.FindStringSubmatch(message); m != nil {
		executed = !strings.HasPrefix(message, "duration: ") && (m[1] == "statement" || m[1] == "execute")
		return m[2], executed, true
	}
	return query, false, query != ""
}

var client = regexp.MustCompile(`^pglease-test-[a-z0-9]+$`)

// sourceOf says whose session it is; "" is one that makes no claim: of the tests, or of what starts servers.
func sourceOf(app, database string) string {
	switch {
	case client.MatchString(app):
		return suite
	case app == demoApp && strings.HasPrefix(database, "pgl_"):
		return demo
	}
	return ""
}

func (a *audit) see(app, database, text string, executed bool) {
	source := sourceOf(app, database)
	if source == "" {
		a.skipped[regexp.MustCompile(`-[a-z0-9]{12}-`).ReplaceAllString(app, "-*-")]++
		return
	}
	a.rows[source]++
	count := func(in map[string]map[string]int, name string) {
		if in[name] == nil {
			in[name] = map[string]int{}
		}
		if executed {
			in[name][source]++
		}
	}
	if name, ok := a.texts[text]; ok {
		count(a.sent, name)
		return
	}
	for _, o := range others {
		if o.text.MatchString(text) {
			if !strings.HasPrefix(text, "--") {
				text = strings.ToUpper(text) // pgx writes begin, lib/pq BEGIN
			}
			count(a.besides, text+"\x00"+o.reason)
			return
		}
	}
	if source == demo && slices.ContainsFunc(a.job, func(r *regexp.Regexp) bool { return r.MatchString(text) }) {
		count(a.besides, "(statements of the job)\x00they stand in the demo's source")
		return
	}
	a.foreign[app+": "+text]++
}

// fault is what the audit fails for.
func (a *audit) fault() error {
	var errs []error
	for _, text := range slices.Sorted(maps.Keys(a.foreign)) {
		errs = append(errs, fmt.Errorf("%d rows with a statement that stands nowhere, of %s", a.foreign[text], text))
	}
	for _, source := range []string{suite, demo} {
		if a.rows[source] == 0 {
			errs = append(errs, fmt.Errorf("no statement of the %s is in the log", source))
		}
	}
	return errors.Join(errs...)
}

func (a *audit) print(w io.Writer) {
	fmt.Fprintf(w, "| statement of the library | suite | demo |\n|---|---|---|\n")
	names := slices.Sorted(maps.Values(a.texts))
	var never []string
	for _, name := range names {
		if n := a.sent[name]; n[suite]+n[demo] > 0 {
			fmt.Fprintf(w, "| %s | %d | %d |\n", name, n[suite], n[demo])
		} else {
			never = append(never, name)
		}
	}
	fmt.Fprintf(w, "\n| besides | why | suite | demo |\n|---|---|---|---|\n")
	for _, key := range slices.Sorted(maps.Keys(a.besides)) {
		text, reason, _ := strings.Cut(key, "\x00")
		fmt.Fprintf(w, "| `%s` | %s | %d | %d |\n", text, reason, a.besides[key][suite], a.besides[key][demo])
	}
	fmt.Fprintf(w, "\nnever sent: %s\n", orNone(never))
	fmt.Fprintf(w, "rows of the log looked at: %d of the suite, %d of the demo\n", a.rows[suite], a.rows[demo])
	var skipped []string
	for _, app := range slices.Sorted(maps.Keys(a.skipped)) {
		skipped = append(skipped, fmt.Sprintf("%q %d", app, a.skipped[app]))
	}
	fmt.Fprintf(w, "rows of other sessions, by application_name: %s\n", orNone(skipped))
	fmt.Fprintf(w, "statements that stand nowhere: %d\n", len(a.foreign))
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}
