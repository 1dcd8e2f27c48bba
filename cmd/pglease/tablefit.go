package main

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed doctor.sql
var doctorSQL string

// statement returns a statement of doctor.sql by its name.
func statement(name string) string {
	_, rest, _ := strings.Cut(doctorSQL, "-- name: "+name+"\n")
	text, _, _ := strings.Cut(rest, "\n-- name: ")
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "--") {
			lines = append(lines, line)
		}
	}
	return strings.TrimSuffix(strings.TrimSpace(strings.Join(lines, "\n")), ";")
}

// A severity orders findings.
type severity string

const (
	severityOK      severity = "ok"
	severityNotice  severity = "notice"  // worth knowing
	severityWarning severity = "warning" // works, and will not always
	severityError   severity = "error"   // does not work, or not as promised
)

// A finding is what doctor says about one thing.
type finding struct {
	Check    string   `json:"check"`
	Severity severity `json:"severity"`
	Finding  string   `json:"finding"`
	Remedy   string   `json:"remedy,omitempty"`
}

// A leaseTable is the table that the search_path leads to.
type leaseTable struct {
	schema, kind, persistence, searchPath string
	columns                               []string
}

func readTable(ctx context.Context, db *sql.DB) (t leaseTable, err error) {
	var columns string
	err = db.QueryRowContext(ctx, statement("Table")).Scan(&t.schema, &t.kind, &t.persistence, &columns, &t.searchPath)
	t.columns = strings.Split(columns, ",")
	return t, err
}

// fit says whether the table is one that leases can be kept in.
func (t leaseTable) fit() finding {
	f := finding{Check: "lease table", Severity: severityError}
	missing := func(names ...string) (list []string) {
		for _, n := range names {
			if !slices.Contains(t.columns, n) {
				list = append(list, n)
			}
		}
		return list
	}
	switch {
	case t.schema == "":
		f.Finding = fmt.Sprintf("there is no lease table where the search_path leads to (%s)", t.searchPath)
		f.Remedy = `run "pglease schema apply", or correct the search_path`
	case t.kind != "r" && t.kind != "p":
		f.Finding, f.Remedy = "pglease_leases in schema "+t.schema+" is not a table", "rename it"
	case t.persistence != "p":
		f.Finding = "the lease table is not LOGGED: a crash empties it, and two may hold one lease"
		f.Remedy = "ALTER TABLE " + t.schema + ".pglease_leases SET LOGGED"
	case len(missing("task_name", "owner_id", "acquired_at", "expires_at", "heartbeat_at")) > 0:
		f.Finding = "the table " + t.schema + ".pglease_leases is another one: it has no column " + missing("task_name", "owner_id", "acquired_at", "expires_at", "heartbeat_at")[0]
		f.Remedy = "rename it, or correct the search_path"
	case len(missing("token", "session", "metadata")) > 0:
		f.Finding = "the lease table has the columns of the Python package only"
		f.Remedy = `run "pglease schema apply" as its owner: workers may go on meanwhile`
	default:
		return finding{Check: "lease table", Severity: severityOK, Finding: t.schema + ".pglease_leases is current"}
	}
	return f
}
