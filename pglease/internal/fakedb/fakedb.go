// Package fakedb is a database/sql driver for the library's tests: it knows the statements of package db and answers them
// from a table in memory, as slowly and as wrongly as a test asks for. Above it stands the real pool of database/sql.
// Everything in it blocks on channels and timers only, so it works inside a testing/synctest bubble.
package fakedb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Statement is one that was sent.
type Statement struct {
	Name string // as its "-- name:" line says, such as "AcquireLease"; "ping", "begin", "commit" or "rollback"
	Args []driver.NamedValue
	Conn int // the connection that it was sent on, counted from 1
	N    int // how often one of that name was sent, this one included
	At   time.Time
}

// Server is the database. Set its hooks before the statements that they concern are sent, or by Hook.
type Server struct {
	mu     sync.Mutex
	rows   map[string]*Row
	sent   []Statement
	counts map[string]int
	opened int // connections, ever
	open   int // now
	before func(context.Context, Statement) error
	after  func(context.Context, Statement) error
	dial   func(context.Context) error

	transaction bool
}

// Row is one row of the lease table.
type Row struct {
	Name, Owner                        string
	AcquiredAt, ExpiresAt, HeartbeatAt time.Time
	Token                              int64
	Metadata                           string
	Locked                             bool // by the transaction of somebody else, FOR UPDATE
}

// New returns a database with an empty lease table.
func New() *Server {
	return &Server{rows: make(map[string]*Row), counts: make(map[string]int)}
}

// Open returns a pool of connections to the database.
func (s *Server) Open() *sql.DB { return sql.OpenDB(connector{s}) }

// Before has f called when a statement has arrived, before it is executed. If f returns an error, it is not executed, and
// that is the answer. f may block.
func (s *Server) Before(f func(context.Context, Statement) error) { s.Hook(f, nil) }

// After has f called when a statement has been executed. If f returns an error, that is the answer.
func (s *Server) After(f func(context.Context, Statement) error) { s.Hook(nil, f) }

// Hook sets both, or removes them.
func (s *Server) Hook(before, after func(context.Context, Statement) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// Dial has f called when a connection is opened. nil: it succeeds at once.
func (s *Server) Dial(f func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dial = f
}

// Transaction has every connection be in a transaction that somebody has opened on it, or not.
func (s *Server) Transaction(open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.transaction = open
}

// Edit has f change the row of name, nil if there is none, and stores what it returns: nil deletes it.
func (s *Server) Edit(name string, f func(*Row) *Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := f(s.rows[name]); r != nil {
		s.rows[name] = r
	} else {
		delete(s.rows, name)
	}
}

// Row returns a copy of the row of name.
func (s *Server) Row(name string) (r Row, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.rows[name]; p != nil {
		return *p, true
	}
	return Row{}, false
}

// Lock has somebody else lock the row of name, or unlock it.
func (s *Server) Lock(name string, locked bool) {
	s.Edit(name, func(r *Row) *Row { r.Locked = locked; return r })
}

// Is reports whether the statement has that name. "attempt" is a name for all those that ask for one lease.
func (st Statement) Is(name string) bool {
	if name == "attempt" {
		return slices.Contains([]string{"AcquireLease", "TakeLease", "ReadLease"}, st.Name)
	}
	return st.Name == name
}

// Sent returns the statements of that name, or all for "".
func (s *Server) Sent(name string) []Statement {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Statement
	for _, st := range s.sent {
		if name == "" || st.Is(name) {
			list = append(list, st)
		}
	}
	return list
}

// Forget forgets which statements were sent.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, s.counts = nil, make(map[string]int)
}

// Connections returns how many connections are open, and how many were ever opened.
func (s *Server) Connections() (open, ever int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open, s.opened
}

// An Error is an error of the server, with its SQLSTATE.
type Error string

func (e Error) Error() string    { return "fakedb: the server answers " + string(e) }
func (e Error) SQLState() string { return string(e) }

// Obey blocks until ctx ends, as a driver does that obeys its context.
func Obey(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Ignore blocks until end is closed, whatever ctx says, as lib/pq does while its peer is silent.
func Ignore(end <-chan struct{}) error {
	<-end
	return driver.ErrBadConn
}

// arrive records a statement and calls the hook.
func (s *Server) arrive(ctx context.Context, conn int, query string, args []driver.NamedValue) (Statement, error) {
	name := query
	if rest, ok := strings.CutPrefix(query, "-- name: "); ok {
		name, _, _ = strings.Cut(rest, " ")
	}
	s.mu.Lock()
	s.counts[name]++
	st := Statement{Name: name, Args: args, Conn: conn, N: s.counts[name], At: time.Now()}
	s.sent = append(s.sent, st)
	before := s.before
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx, st); err != nil {
			return st, err
		}
	}
	return st, ctx.Err()
}

// answer calls the hook for what has been executed.
func (s *Server) answer(ctx context.Context, st Statement) error {
	s.mu.Lock()
	after := s.after
	s.mu.Unlock()
	if after == nil {
		return nil
	}
	return after(ctx, st)
}
