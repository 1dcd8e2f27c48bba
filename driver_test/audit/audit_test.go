package main

import (
	"encoding/csv"
	"strings"
	"testing"
)

func TestEveryConstantOfDbIsKnown(t *testing.T) {
	texts, err := libraryTexts("../..")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for text, name := range texts {
		names[name] = true
		if strings.TrimSpace(text) == "" {
			t.Errorf("%s is empty", name)
		}
	}
	for _, want := range []string{"AcquireLease", "AcquireWithSession", "CheckTerm", "schema/001_leases.sql"} {
		if !names[want] {
			t.Errorf("no %s among %d", want, len(texts))
		}
	}
}

// What the server writes for the simple and for the extended protocol, before and after, and with an error.
func TestStatementsAreFoundInTheLog(t *testing.T) {
	for _, c := range []struct {
		message, query string
		want           string
		executed       bool
	}{
		{"statement: SELECT 1", "", "SELECT 1", true},
		{"execute <unnamed>: SELECT\n 'a: b'", "", "SELECT\n 'a: b'", true},
		{"execute stmtcache_0a/portal: SELECT 2", "", "SELECT 2", true},
		{"duration: 0.123 ms  parse stmtcache_0a: SELECT 2", "", "SELECT 2", false},
		{"duration: 0.123 ms  bind <unnamed>: SELECT 3", "", "SELECT 3", false},
		{"duration: 0.123 ms", "", "", false},
		{"canceling statement due to user request", "SELECT 4", "SELECT 4", false},
		{"connection received", "", "", false},
	} {
		text, executed, ok := statementOf(c.message, c.query)
		if text != c.want || executed != c.executed || ok != (c.want != "") {
			t.Errorf("%q, %q: %q, %v, %v", c.message, c.query, text, executed, ok)
		}
	}
}

// The audit is checked: one strange statement, of any kind, is a fault, and so is a text that differs by a blank.
func TestAForeignStatementIsAFault(t *testing.T) {
	texts, err := libraryTexts("../..")
	if err != nil {
		t.Fatal(err)
	}
	job, err := demoTexts("../demo")
	if err != nil {
		t.Fatal(err)
	}
	var known string
	for text, name := range texts {
		if name == "CheckTerm" {
			known = text
		}
	}
	const ours = "pglease-test-abcdefgh2345"
	sound := [][]string{
		line(ours, "x", "execute <unnamed>: "+known), line(ours, "x", "statement: begin"), line(ours, "x", "statement: ;"),
		line(ours+"-admin", "x", "statement: DROP TABLE a"), line(demoApp, "postgres", "statement: CREATE DATABASE pgl_a"),
		line(demoApp, "pgl_a", "execute a: UPDATE accounts SET balance = $2 WHERE id = $1"),
		line(demoApp, "pgl_a", "statement: SELECT count(*) FROM (SELECT sum(balance) AS s FROM accounts) a WHERE s <> 3000"),
	}
	for what, bad := range map[string][]string{
		"":                          nil,
		"another statement":         line(ours, "x", "statement: SELECT 1"),
		"one that is only prepared": line(ours, "x", "duration: 1.2 ms  parse a: SELECT 1"),
		"a blank more":              line(ours, "x", "execute <unnamed>: "+known+" "),
		"two in one":                line(ours, "x", "statement: begin; SELECT 1"),
		"the job's, by the suite":   line(ours, "x", "execute a: UPDATE accounts SET balance = $2 WHERE id = $1"),
		"not the job's, by it":      line(demoApp, "pgl_a", "statement: SELECT 1"),
	} {
		rows := sound
		if bad != nil {
			rows = append(sound[:len(sound):len(sound)], bad)
		}
		var log strings.Builder
		if err := csv.NewWriter(&log).WriteAll(rows); err != nil {
			t.Fatal(err)
		}
		a := newAudit(texts, job)
		if err := a.read(strings.NewReader(log.String())); err != nil {
			t.Fatal(err)
		}
		if err := a.fault(); (err != nil) != (bad != nil) {
			t.Errorf("with %q: %v", what, err)
		}
	}
	if newAudit(texts, job).fault() == nil {
		t.Error("an empty log is no fault")
	}
}

func line(app, database, message string) []string {
	row := make([]string, 26)
	row[columnApp], row[columnDatabase], row[columnMessage] = app, database, message
	return row
}
