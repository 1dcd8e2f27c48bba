package pglease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"reflect"

	"github.com/pglease/pglease-go/db"
)

// DB is what a Client needs of a database: a *sql.DB, a *sql.Conn, or a type that embeds one. If it also has the method
// Conn of *sql.DB, that is used.
type DB interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	PingContext(ctx context.Context) error
}

// pool is what a *sql.DB has beside DB.
type pool interface {
	Conn(ctx context.Context) (*sql.Conn, error)
	Stats() sql.DBStats
}

// session is what a *sql.Conn has beside DB.
type session interface {
	Raw(f func(driverConn any) error) error
}

// statements makes a DB what the generated code wants. It prepares nothing; but see ask.
type statements struct{ DB }

var _ db.DBTX = statements{}

func (statements) PrepareContext(context.Context, string) (*sql.Stmt, error) {
	return nil, errors.ErrUnsupported
}

var queries = db.New()

// isNil reports whether v is nil or an interface that holds a nil pointer.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// destroy closes the server session of conn instead of giving it back to the pool. Returning driver.ErrBadConn from Raw
// is the only way that database/sql has for that; a pool behind the driver has to be told, too.
func destroy(conn *sql.Conn) {
	_ = conn.Raw(func(driverConn any) error {
		prepared.forget(driverConn)
		endSession(driverConn)
		return driver.ErrBadConn
	})
	_ = conn.Close()
}
