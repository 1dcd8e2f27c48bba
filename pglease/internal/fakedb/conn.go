package fakedb

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
)

type connector struct{ s *Server }

func (c connector) Driver() driver.Driver { return c }

func (c connector) Open(string) (driver.Conn, error) { return nil, errors.ErrUnsupported }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	c.s.mu.Lock()
	dial := c.s.dial
	c.s.mu.Unlock()
	if dial != nil {
		if err := dial(ctx); err != nil {
			return nil, err
		}
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.opened++
	c.s.open++
	return &conn{s: c.s, id: c.s.opened}, nil
}

// conn is a connection. Like real ones it is broken after an error that is not the server's.
type conn struct {
	s      *Server
	id     int
	broken bool
}

var (
	_ driver.QueryerContext  = (*conn)(nil)
	_ driver.ExecerContext   = (*conn)(nil)
	_ driver.ConnBeginTx     = (*conn)(nil)
	_ driver.Pinger          = (*conn)(nil)
	_ driver.Validator       = (*conn)(nil)
	_ driver.SessionResetter = (*conn)(nil)
)

func (c *conn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }

func (c *conn) Begin() (driver.Tx, error) { return c.BeginTx(context.Background(), driver.TxOptions{}) }

func (c *conn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	_, err := c.do(ctx, "begin", nil)
	return tx{c}, err
}

type tx struct{ c *conn }

func (t tx) Commit() error   { _, err := t.c.do(context.Background(), "commit", nil); return err }
func (t tx) Rollback() error { _, err := t.c.do(context.Background(), "rollback", nil); return err }

func (c *conn) Ping(ctx context.Context) error {
	_, err := c.do(ctx, "ping", nil)
	return err
}

func (c *conn) IsValid() bool { return !c.broken }

func (c *conn) ResetSession(context.Context) error {
	if c.broken {
		return driver.ErrBadConn
	}
	return nil
}

func (c *conn) Close() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.open--
	return nil
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	a, err := c.do(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return &rows{a.rows}, nil
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	a, err := c.do(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return driver.RowsAffected(a.affected), nil
}

func (c *conn) do(ctx context.Context, query string, args []driver.NamedValue) (a answer, err error) {
	defer func() {
		var server Error
		c.broken = c.broken || err != nil && !errors.As(err, &server)
	}()
	st, err := c.s.arrive(ctx, c.id, query, args)
	if err != nil {
		return answer{}, err
	}
	if a, err = c.s.execute(ctx, st); err != nil {
		return answer{}, err
	}
	return a, c.s.answer(ctx, st)
}

// rows are answers of one kind.
type rows struct{ left []any }

func (r *rows) Close() error { return nil }

func (r *rows) Columns() []string {
	if len(r.left) == 0 {
		return nil
	}
	return make([]string, len(values(r.left[0])))
}

func (r *rows) Next(to []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	copy(to, values(r.left[0]))
	r.left = r.left[1:]
	return nil
}
