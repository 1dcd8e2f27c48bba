package pglease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/pglease/pglease-go/db"
	"github.com/pglease/pglease-go/pglease/internal/backoff"
	"github.com/pglease/pglease-go/schema"
)

// ensureTimeout bounds EnsureSchema if its context does not.
const ensureTimeout = time.Minute

// EnsureSchema looks first (D2: CREATE … IF NOT EXISTS needs a right even if there is nothing to create), and repeats
// what fails because others do the same at the same time (D1) or because a worker's open transaction has the table.
func (t *tableBackend) EnsureSchema(ctx context.Context) error {
	for n := 1; ; n++ {
		current, err := t.describe(ctx)
		if err != nil || current {
			return err
		}
		err = t.runFor(ctx, ensureTimeout, false, func(ctx context.Context, s statements) error {
			_, err := s.ExecContext(ctx, schema.Leases)
			if err != nil || t.given == nil {
				return err
			}
			open, err := queries.TransactionOpen(ctx, s)
			if err == nil && open {
				return openTransaction
			}
			return err
		})
		switch stateOf(err) {
		case "":
			if err == nil && n <= tries {
				continue // look at the outcome
			}
			if err == nil {
				return t.noSchema(ctx, errors.New("the table was created, and is not found"))
			}
		case stateUniqueViolation, stateDuplicateTable, stateDuplicateObject, stateDuplicateColumn, stateInternal,
			stateSerialization, stateDeadlock, stateLockNotAvailable:
			if pause(ctx, backoff.Exponential(n, 50*time.Millisecond, 2*time.Second)) {
				continue
			}
		}
		return t.fault(ctx, "ensure schema", err)
	}
}

// columnTypes are the columns of version 1 and the types that each may have.
var columnTypes = map[string][]string{
	"task_name":    {"character varying", "text"},
	"owner_id":     {"character varying", "text"},
	"acquired_at":  {"timestamp with time zone"},
	"expires_at":   {"timestamp with time zone"},
	"heartbeat_at": {"timestamp with time zone"},
	"token":        {"bigint"},
	"session":      {"jsonb"},
	"metadata":     {"jsonb"},
}

// ofPython are the columns that the Python package's table has, and that an upgrade does not add.
var ofPython = []string{"task_name", "owner_id", "acquired_at", "expires_at", "heartbeat_at"}

// describe reports whether the lease table is there and has at least the columns of version 1. A table that no upgrade
// makes fit is an *UnsupportedError.
func (t *tableBackend) describe(ctx context.Context) (current bool, err error) {
	var columns []db.DescribeTableRow
	err = t.run(ctx, false, func(ctx context.Context, s statements) (err error) {
		columns, err = queries.DescribeTable(ctx, s)
		return err
	})
	if err != nil {
		return false, t.fault(ctx, "ensure schema", err)
	}
	if len(columns) == 0 {
		return false, nil
	}
	defer func() {
		if current {
			t.reportIndexes(columns)
		}
	}()
	table := columns[0].SchemaName + ".pglease_leases"
	misfit := func(format string, args ...any) error {
		return &UnsupportedError{
			Finding: "the table " + table + " does not fit: " + fmt.Sprintf(format, args...),
			Remedy:  "rename it, or change it to what schema/001_leases.sql says",
		}
	}
	if kind := columns[0].RelationKind; kind != "r" && kind != "p" {
		return false, misfit("it is not a table")
	}
	if columns[0].Persistence != "p" {
		return false, misfit("it is not LOGGED, so a crash would empty it (S8)")
	}
	there := make(map[string]bool, len(columns))
	for _, c := range columns {
		want, ours := columnTypes[c.ColumnName]
		if !ours {
			continue
		}
		if !slices.Contains(want, c.ColumnType) {
			return false, misfit("its column %s is %s, not %s", c.ColumnName, c.ColumnType, want[0])
		}
		if c.ColumnName == "task_name" && !c.IsUnique {
			return false, misfit("its column task_name has no unique index of its own")
		}
		there[c.ColumnName] = true
	}
	for _, name := range ofPython {
		if !there[name] {
			return false, misfit("it has no column %s", name)
		}
	}
	return len(there) == len(columnTypes), nil
}

// beaten are the columns that a heartbeat changes. With an index on one of them no renewal is a HOT update (D5).
var beaten = []string{"expires_at", "heartbeat_at"}

// reportIndexes warns of each index that makes heartbeats dear. It may be there for somebody's sake, so it is not dropped.
func (t *tableBackend) reportIndexes(columns []db.DescribeTableRow) {
	on := make(map[string][]string)
	for _, c := range columns {
		if !slices.Contains(beaten, c.ColumnName) {
			continue
		}
		for drop := range strings.Lines(c.DropIndexes) {
			drop = strings.TrimSuffix(drop, "\n")
			on[drop] = append(on[drop], c.ColumnName)
		}
	}
	for _, drop := range slices.Sorted(maps.Keys(on)) {
		t.log.Warn("an index on a column that every heartbeat changes makes heartbeats dear and the table grow: drop it",
			zap.String("statement", drop), zap.Strings("columns", on[drop]))
	}
}
