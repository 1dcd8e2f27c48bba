package pglease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"

	"github.com/pglease/pglease-go/db"
)

// Hybrid's statements stay prepared in the sessions of the pool, where the driver would plan each of them anew and send it in two
// round trips (lib/pq; pgx prepares by itself). Only after a pre-flight that has seen two sessions: behind a transaction
// pooler a name means whatever the session of the moment has prepared under it.

// mostSessions bounds how many sessions are remembered with their statements, of which some may have ended meanwhile. Whichever is
// forgotten prepares them once more.
const mostSessions = 256

// A sessionCache has the prepared statements of a pool's connections.
type sessionCache struct {
	mu sync.Mutex
	of map[any]map[string]driver.StmtQueryContext // by the driver's connection, and the text
}

// preparing is a connection on which ask prepares what it sends.
type preparing struct {
	*sql.Conn
	cache *sessionCache
}

// ask sends a statement that has one row for an answer: prepared, if s is preparing and the driver can, or else as queries
// does (send). P and R are what sqlc makes of the statement: its parameters and the columns of its answer, in their order.
func ask[P, R any](ctx context.Context, s statements, text string, args P, send func(context.Context, db.DBTX, P) (R, error)) (row R, err error) {
	p, ok := s.DB.(preparing)
	if !ok {
		return send(ctx, s, args)
	}
	prepared := false
	rawErr := p.Raw(func(driverConn any) error {
		var stmt driver.StmtQueryContext
		if stmt, err = p.cache.prepare(ctx, driverConn, text); stmt == nil {
			return err
		}
		prepared = true
		err = queryRow(ctx, stmt, reflect.ValueOf(args), reflect.ValueOf(&row).Elem())
		switch stateOf(err) {
		case stateStatementMissing: // somebody has deallocated it, with DISCARD ALL for one
			p.cache.forget(driverConn)
			prepared = false
		case statePlanChanged:
			p.cache.forget(driverConn)
		}
		if errors.Is(err, driver.ErrBadConn) {
			p.cache.forget(driverConn)
			return err // so that the pool hears of it
		}
		return nil
	})
	if rawErr != nil {
		return row, rawErr
	}
	if !prepared && (err == nil || stateOf(err) == stateStatementMissing) {
		return send(ctx, s, args)
	}
	return row, err
}

// prepare returns nil and nil if the driver cannot.
func (c *sessionCache) prepare(ctx context.Context, driverConn any, text string) (driver.StmtQueryContext, error) {
	preparer, ok := driverConn.(driver.ConnPrepareContext)
	if !ok || !reflect.TypeOf(driverConn).Comparable() {
		return nil, nil
	}
	c.mu.Lock()
	known, ok := c.of[driverConn][text]
	c.mu.Unlock()
	if ok {
		return known, nil
	}
	stmt, err := preparer.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	query, ok := stmt.(driver.StmtQueryContext)
	if !ok {
		return nil, stmt.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[any]map[string]driver.StmtQueryContext)
	}
	if c.of[driverConn] == nil {
		for other := range c.of {
			if len(c.of) < mostSessions {
				break
			}
			delete(c.of, other)
		}
		c.of[driverConn] = make(map[string]driver.StmtQueryContext)
	}
	c.of[driverConn][text] = query
	return query, nil
}

func (c *sessionCache) forget(driverConn any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, driverConn)
}

func (c *sessionCache) forgetConn(conn *sql.Conn) {
	if c != nil {
		_ = conn.Raw(func(driverConn any) error { c.forget(driverConn); return nil })
	}
}

// queryRow does for a driver's statement what sql.Row.Scan does for the fields of row.
func queryRow(ctx context.Context, stmt driver.StmtQueryContext, args, row reflect.Value) (err error) {
	values := make([]driver.NamedValue, args.NumField())
	for i := range values {
		value, err := driver.DefaultParameterConverter.ConvertValue(args.Field(i).Interface())
		if err != nil {
			return err
		}
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: value}
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
