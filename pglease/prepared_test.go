package pglease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A cannedStmt answers with one row, or with none.
type cannedStmt struct {
	driver.Stmt
	row      []driver.Value
	closeErr error
	got      []driver.NamedValue
	done     bool
}

func (s *cannedStmt) QueryContext(_ context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.got = args
	return s, nil
}
func (s *cannedStmt) ExecContext(_ context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.got = args
	return driver.RowsAffected(1), s.closeErr
}
func (s *cannedStmt) Columns() []string { return make([]string, len(s.row)) }
func (s *cannedStmt) Close() error      { return s.closeErr }

func (s *cannedStmt) Next(into []driver.Value) error {
	if s.done || s.row == nil {
		return io.EOF
	}
	copy(into, s.row)
	s.done = true
	return nil
}

type cannedRow struct {
	Yes   bool
	Name  string
	PID   int32
	Token int64
	At    time.Time
}

func TestQueryRowScansWhatDriversReturn(t *testing.T) {
	now := time.Now()
	commit := errors.New("the commit failed")
	for name, c := range map[string]struct {
		row      []driver.Value
		closeErr error
		want     cannedRow
		is       error
		words    string
	}{
		"strings":           {row: []driver.Value{true, "x", int64(1), int64(2), now}, want: cannedRow{true, "x", 1, 2, now}},
		"bytes":             {row: []driver.Value{true, []byte("x"), int64(1), int64(2), now}, want: cannedRow{true, "x", 1, 2, now}},
		"no row":            {is: sql.ErrNoRows},
		"a failed commit":   {row: []driver.Value{true, "x", int64(1), int64(2), now}, closeErr: commit, is: commit},
		"none, and failed":  {closeErr: commit, is: commit},
		"NULL":              {row: []driver.Value{true, nil, int64(1), int64(2), now}, words: "<nil> for a field of type string"},
		"too large":         {row: []driver.Value{true, "x", int64(1) << 40, int64(2), now}, words: "int64 for a field of type int32"},
		"a number for text": {row: []driver.Value{true, int64(7), int64(1), int64(2), now}, words: "int64 for a field of type string"},
		"a column more":     {row: []driver.Value{true, "x", int64(1), int64(2), now, now}, words: "6 columns for 5 fields"},
	} {
		t.Run(name, func(t *testing.T) {
			var row cannedRow
			stmt := &cannedStmt{row: c.row, closeErr: c.closeErr}
			args := struct {
				Key  int64
				PID  int32
				Name string
			}{5, 6, "seven"}
			err := queryRow(t.Context(), stmt, reflect.ValueOf(args), reflect.ValueOf(&row).Elem())
			switch {
			case c.is != nil && !errors.Is(err, c.is):
				t.Errorf("error %v, want %v", err, c.is)
			case c.words != "" && (err == nil || !strings.Contains(err.Error(), c.words)):
				t.Errorf("error %v, want %q", err, c.words)
			case c.is == nil && c.words == "" && (err != nil || row != c.want):
				t.Errorf("%+v, %v; want %+v", row, err, c.want)
			}
			want := []driver.NamedValue{{Ordinal: 1, Value: int64(5)}, {Ordinal: 2, Value: int64(6)}, {Ordinal: 3, Value: "seven"}}
			if !reflect.DeepEqual(stmt.got, want) {
				t.Errorf("sent %v, want %v", stmt.got, want)
			}
		})
	}
}

// A cannedConn prepares whatever it is told to.
type cannedConn struct{ prepared int }

func (c *cannedConn) PrepareContext(context.Context, string) (driver.Stmt, error) {
	c.prepared++
	return &cannedStmt{}, nil
}

// An intercepted connection is a value that is comparable by its type alone.
type intercepted struct {
	*cannedConn
	interceptor any
}

func TestSessionCacheIsBounded(t *testing.T) {
	synctest.Test(t, testSessionCache)
}

func testSessionCache(t *testing.T) {
	var cache sessionCache
	use := func(c any, text string) {
		t.Helper()
		if stmt, err := cache.prepare(t.Context(), c, text); stmt == nil || err != nil {
			t.Fatalf("%v, %v", stmt, err)
		}
	}
	for range mostSessions {
		c := &cannedConn{}
		for range 2 {
			use(c, "a")
			use(c, "b")
		}
		if c.prepared != 2 {
			t.Fatalf("two statements prepared %d times", c.prepared)
		}
	}
	if n := len(cache.of); n != mostSessions {
		t.Errorf("%d sessions remembered, want %d", n, mostSessions)
	}
	c := &cannedConn{}
	if stmt, err := cache.prepare(t.Context(), c, "a"); stmt != nil || err != nil {
		t.Errorf("one session too many: %v, %v", stmt, err)
	}
	time.Sleep(sessionGone + time.Second)
	use(c, "a")
	if n := len(cache.of); n != 1 {
		t.Errorf("%d sessions remembered when they had been idle for long, want 1", n)
	}
	cache.forget(c)
	use(c, "a")
	if c.prepared != 2 {
		t.Errorf("a forgotten session's statement was prepared %d times in all, want 2", c.prepared)
	}
	for _, conn := range []any{struct{}{}, intercepted{&cannedConn{}, []string{}}} {
		if stmt, err := cache.prepare(t.Context(), conn, "a"); stmt != nil || err != nil {
			t.Errorf("%T, a connection that cannot prepare: %v, %v", conn, stmt, err)
		}
	}
}
