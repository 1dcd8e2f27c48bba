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

	"github.com/pglease/pglease-go/db"
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

// A cannedConn prepares whatever it is told to, and fails as it is told to.
type cannedConn struct {
	bareConn
	prepared              int
	prepareErr, answerErr error
	during                func() // is called while a statement is under way
}

func (c *cannedConn) Connect(context.Context) (driver.Conn, error) { return c, nil }
func (c *cannedConn) Driver() driver.Driver                        { return nil }

func (c *cannedConn) PrepareContext(context.Context, string) (driver.Stmt, error) {
	c.prepared++
	if c.prepareErr != nil {
		return nil, c.prepareErr
	}
	return &failingStmt{conn: c}, nil
}

type failingStmt struct {
	cannedStmt
	conn *cannedConn
}

func (s *failingStmt) ExecContext(context.Context, []driver.NamedValue) (driver.Result, error) {
	if s.conn.during != nil {
		s.conn.during()
	}
	return driver.RowsAffected(1), s.conn.answerErr
}

type cannedState string

func (e cannedState) Error() string    { return string(e) }
func (e cannedState) SQLState() string { return string(e) }

// What a server says of a prepared statement decides how it is sent then: not at all again if something may have been done.
func TestAPreparedStatementThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		prepareErr, answerErr error
		known                 bool // the statement was prepared, and sent, before
		hybrid                bool
		unprepared            bool // it is sent as the generated code does
		moved                 bool // the client prepares nothing from now on
		prepared              int  // the same statement, in all, after the next time
	}{
		"well":                            {prepared: 1},
		"deallocated":                     {answerErr: cannedState(stateStatementMissing), known: true, unprepared: true, prepared: 2},
		"gone as soon as it was prepared": {answerErr: cannedState(stateStatementMissing), unprepared: true, moved: true, prepared: 2},
		"gone, in hybrid":                 {answerErr: cannedState(stateStatementMissing), hybrid: true, prepared: 1},
		"another statement":               {answerErr: cannedState(stateProtocol), known: true, unprepared: true, moved: true, prepared: 2},
		"another statement, in hybrid":    {answerErr: cannedState(stateProtocol), known: true, hybrid: true, prepared: 1},
		"another table":                   {answerErr: cannedState(statePlanChanged), known: true, unprepared: true, prepared: 2},
		"another table, in hybrid":        {answerErr: cannedState(statePlanChanged), known: true, hybrid: true, prepared: 2},
		"a session with a past":           {prepareErr: cannedState(stateStatementExists), unprepared: true, moved: true, prepared: 2},
		"the same, in hybrid":             {prepareErr: cannedState(stateStatementExists), hybrid: true, unprepared: true, prepared: 2},
		"a failure":                       {answerErr: cannedState(stateSerialization), prepared: 1},
	} {
		t.Run(name, func(t *testing.T) {
			driverConn := &cannedConn{}
			pool := sql.OpenDB(driverConn)
			defer pool.Close()
			conn, err := pool.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			var moved, unprepared bool
			p := preparing{Conn: conn}
			if !c.hybrid {
				p.moved = func() { moved = true }
			}
			send := func() error {
				_, err := tell(t.Context(), statements{p}, "a statement", struct{}{}, func(context.Context, db.DBTX, struct{}) (int64, error) {
					unprepared = true
					return 1, nil
				})
				return err
			}
			if c.known {
				if err := send(); err != nil || unprepared {
					t.Fatalf("at first: %v, unprepared: %t", err, unprepared)
				}
			}
			driverConn.prepareErr, driverConn.answerErr = c.prepareErr, c.answerErr
			err = send()
			if want := errors.Join(c.answerErr, c.prepareErr); (err != nil) == c.unprepared && want != nil || unprepared != c.unprepared || moved != c.moved {
				t.Errorf("%v, unprepared: %t, moved: %t; want %+v", err, unprepared, moved, c)
			}
			driverConn.prepareErr, driverConn.answerErr = nil, nil
			if err := send(); err != nil || driverConn.prepared != c.prepared {
				t.Errorf("the next time: %v, prepared %d times, want %d", err, driverConn.prepared, c.prepared)
			}
		})
	}
}

// A cancellation that is under way to a session would meet whatever is sent next: the session ends, whatever came of the statement.
func TestACancelledSessionIsNotGivenBack(t *testing.T) {
	for name, answer := range map[string]error{"well": nil, "no row": sql.ErrNoRows, "a failure": cannedState(stateSerialization)} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			driverConn := &cannedConn{answerErr: answer, during: cancel}
			pool := sql.OpenDB(driverConn)
			defer pool.Close()
			conn, err := pool.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := answer
			if want == nil || errors.Is(want, sql.ErrNoRows) { // which would be asked for by other means, on this session
				want = context.Canceled
			}
			_, err = tell(ctx, statements{preparing{Conn: conn}}, "a statement", struct{}{}, func(context.Context, db.DBTX, struct{}) (int64, error) {
				t.Error("it was sent again")
				return 0, nil
			})
			if !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
			_ = conn.Close()
			if n := pool.Stats().OpenConnections; n != 0 {
				t.Errorf("%d sessions are open", n)
			}
		})
	}
}

// A lesserConn has statements that take no context.
type lesserConn struct{ prepared int }

func (c *lesserConn) PrepareContext(context.Context, string) (driver.Stmt, error) {
	c.prepared++
	return lesserStmt{}, nil
}

type lesserStmt struct{ driver.Stmt }

func (lesserStmt) Close() error { return nil }

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
		if stmt, _, err := cache.prepare(t.Context(), c, text); stmt == nil || err != nil {
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
	if stmt, _, err := cache.prepare(t.Context(), c, "a"); stmt != nil || err != nil {
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
	lesser := &lesserConn{}
	for range 2 {
		if stmt, _, err := cache.prepare(t.Context(), lesser, "a"); stmt != nil || err != nil || lesser.prepared != 1 {
			t.Errorf("statements that take no context: %v, %v, asked for %d times", stmt, err, lesser.prepared)
		}
	}
	for _, conn := range []any{struct{}{}, intercepted{&cannedConn{}, []string{}}} {
		if stmt, _, err := cache.prepare(t.Context(), conn, "a"); stmt != nil || err != nil {
			t.Errorf("%T, a connection that cannot prepare: %v, %v", conn, stmt, err)
		}
	}
}
