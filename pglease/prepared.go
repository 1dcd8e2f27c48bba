package pglease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/pglease/pglease-go/db"
)

// The statements that are sent most stay prepared in the sessions of the pool, where the driver would have each of them planned anew
// and send it in two round trips (lib/pq; pgx prepares by itself). Only after a pre-flight that has seen two sessions (see
// sessions, and preparation): behind a transaction pooler a name means whatever the session of the moment has prepared under it.

// prepared is for all clients of the process, lest each that uses a pool leave statements of its own in its sessions.
var prepared sessionCache

const (
	// mostSessions bounds how many sessions are remembered with their statements. Those of more are not prepared.
	mostSessions = 256
	// sessionGone is how long a session must have been idle to be taken for one that has ended, when there are too many: nobody tells
	// when a pool closes one, and a pool whose connections live for minutes fills this soon. If it has not, it will have its statements twice.
	sessionGone = time.Minute
)

// A sessionCache has the prepared statements of a pool's connections.
type sessionCache struct {
	mu sync.Mutex
	of map[any]*preparedSession // by the driver's connection
}

type preparedSession struct {
	statements map[string]preparedStmt // by text; nil: the driver's are of no use
	used       time.Time
}

type preparedStmt interface {
	driver.Stmt
	driver.StmtQueryContext
	driver.StmtExecContext
}

// preparing is a connection on which ask prepares what it sends.
type preparing struct {
	*sql.Conn
	// moved, if not nil, is told that the statement has met another session than the one that had prepared it, and then the statement is
	// sent unprepared. Otherwise the error is the caller's.
	moved func()
}

// ask sends a statement that has one row for an answer: prepared, if s is preparing and the driver can, or else as queries
// does (send). P and R are what sqlc makes of the statement: its parameters and the columns of its answer, in their order.
func ask[P, R any](ctx context.Context, s statements, text string, args P, send func(context.Context, db.DBTX, P) (R, error)) (row R, err error) {
	sent, err := sendPrepared(ctx, s, text, func(stmt preparedStmt) error {
		return queryRow(ctx, stmt, reflect.ValueOf(args), reflect.ValueOf(&row).Elem())
	})
	if err == nil && !sent {
		return send(ctx, s, args)
	}
	return row, err
}

// tell is ask for a statement whose answer is a number of rows.
func tell[P any](ctx context.Context, s statements, text string, args P, send func(context.Context, db.DBTX, P) (int64, error)) (rows int64, err error) {
	sent, err := sendPrepared(ctx, s, text, func(stmt preparedStmt) (err error) {
		rows, err = execRows(ctx, stmt, reflect.ValueOf(args))
		return err
	})
	if err == nil && !sent {
		return send(ctx, s, args)
	}
	return rows, err
}

// sendPrepared runs the statement of that text, if s is preparing and the driver can. Neither sent nor an error: nothing was done.
func sendPrepared(ctx context.Context, s statements, text string, run func(preparedStmt) error) (sent bool, err error) {
	p, ok := s.DB.(preparing)
	if !ok {
		return false, nil
	}
	rawErr := p.Raw(func(driverConn any) error {
		var stmt preparedStmt
		var known bool
		if stmt, known, err = prepared.prepare(ctx, driverConn, text); stmt != nil {
			sent = true
			err = run(stmt)
		}
		if ctx.Err() != nil && (sent || err != nil) {
			prepared.forget(driverConn)
			if err == nil || errors.Is(err, sql.ErrNoRows) {
				err = ctx.Err() // nothing else can be asked on this connection
			}
			return driver.ErrBadConn // a cancellation is under way to this session, and may meet what is sent next
		}
		switch state := stateOf(err); { // what is sent again has not been begun by the server
		case stmt == nil && state == stateStatementExists: // in a session that a pooler has handed on
			err = nil
			if p.moved != nil {
				p.moved()
			}
		case stmt != nil && p.moved != nil && (state == stateProtocol || state == stateStatementMissing && !known):
			prepared.drop(driverConn, text)
			sent, err = false, nil
			p.moved()
		case stmt != nil && known && (state == stateStatementMissing || state == statePlanChanged):
			// Somebody has deallocated it, with DISCARD ALL for one, or the table has changed.
			prepared.drop(driverConn, text)
			closeErr := stmt.Close()
			if state == stateStatementMissing || p.moved != nil { // in hybrid an advisory lock may have been had, if it was a trigger that said so
				sent, err = false, closeErr
			}
		}
		if broken(ctx, err) {
			prepared.forget(driverConn)
		}
		if errors.Is(err, driver.ErrBadConn) {
			return err // so that the pool hears of it
		}
		return nil
	})
	if err == nil && rawErr != nil { // the connection is closed
		return false, rawErr
	}
	return sent, err
}

// prepare returns a statement that was prepared just now, or is known from before; nil without an error if the driver cannot, or
// there are too many sessions.
func (c *sessionCache) prepare(ctx context.Context, driverConn any, text string) (stmt preparedStmt, known bool, err error) {
	preparer, ok := driverConn.(driver.ConnPrepareContext)
	if !ok || !reflect.ValueOf(driverConn).Comparable() {
		return nil, false, nil
	}
	stmt, room := c.get(driverConn, text)
	if stmt != nil || !room {
		return stmt, stmt != nil, nil
	}
	made, err := preparer.PrepareContext(ctx, text)
	if err != nil {
		return nil, false, err
	}
	if stmt, ok = made.(preparedStmt); !ok {
		err = made.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[any]*preparedSession)
	}
	if c.of[driverConn] == nil {
		c.of[driverConn] = &preparedSession{make(map[string]preparedStmt), time.Now()}
	}
	c.of[driverConn].statements[text] = stmt
	return stmt, false, err
}

// get reports whether there is room for a statement that it does not find.
func (c *sessionCache) get(driverConn any, text string) (stmt preparedStmt, room bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if session := c.of[driverConn]; session != nil {
		session.used = time.Now()
		stmt, asked := session.statements[text]
		return stmt, !asked
	}
	if len(c.of) >= mostSessions {
		maps.DeleteFunc(c.of, func(_ any, s *preparedSession) bool { return time.Since(s.used) > sessionGone })
	}
	return nil, len(c.of) < mostSessions
}

// drop forgets one statement of a session.
func (c *sessionCache) drop(driverConn any, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if session := c.of[driverConn]; session != nil {
		delete(session.statements, text)
	}
}

// forget forgets a session.
func (c *sessionCache) forget(driverConn any) {
	if !reflect.ValueOf(driverConn).Comparable() {
		return // and never prepared on
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, driverConn)
}

// queryRow does for a driver's statement what sql.Row.Scan does for the fields of row.
func queryRow(ctx context.Context, stmt driver.StmtQueryContext, args, row reflect.Value) (err error) {
	values, err := namedValues(args)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(ctx, values)
	if err != nil {
		return err
	}
	columns := make([]driver.Value, len(rows.Columns()))
	switch err = rows.Next(columns); {
	case errors.Is(err, io.EOF):
		err = sql.ErrNoRows
	case err == nil && len(columns) != row.NumField():
		err = fmt.Errorf("%d columns for %d fields", len(columns), row.NumField())
	case err == nil:
		for i, column := range columns {
			err = errors.Join(err, assign(row.Field(i), column))
		}
	}
	closeErr := rows.Close() // the commit may have failed
	if closeErr != nil && (err == nil || errors.Is(err, sql.ErrNoRows)) {
		return closeErr
	}
	return err
}

// execRows does for a driver's statement what sql.Stmt.ExecContext and sql.Result.RowsAffected do.
func execRows(ctx context.Context, stmt driver.StmtExecContext, args reflect.Value) (int64, error) {
	values, err := namedValues(args)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(ctx, values)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func namedValues(args reflect.Value) ([]driver.NamedValue, error) {
	values := make([]driver.NamedValue, args.NumField())
	for i := range values {
		value, err := driver.DefaultParameterConverter.ConvertValue(args.Field(i).Interface())
		if err != nil {
			return nil, err
		}
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: value}
	}
	return values, nil
}

// assign copies a value of a driver, whose memory may be the driver's.
func assign(field reflect.Value, value driver.Value) error {
	v := reflect.ValueOf(value)
	switch {
	case !v.IsValid():
	case field.Kind() == reflect.String && (v.Kind() == reflect.String || v.Type() == reflect.TypeFor[[]byte]()):
		field.SetString(string(v.Convert(field.Type()).String()))
		return nil
	case field.CanInt() && v.CanInt() && !field.OverflowInt(v.Int()):
		field.SetInt(v.Int())
		return nil
	case v.Type() == field.Type():
		field.Set(v)
		return nil
	}
	return fmt.Errorf("a column of type %T for a field of type %s", value, field.Type())
}
