package pglease

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// The sentinel errors of the package, for errors.Is. What is returned usually says more than they do.
var (
	// ErrHeld: somebody holds the lease. It comes as a *HeldError, which says who.
	ErrHeld = errors.New("pglease: held by another")
	// ErrLost: the term ended before its release. It comes as a *LostError, which says why.
	ErrLost = errors.New("pglease: lease lost")
	// ErrReleased: the lease was released.
	ErrReleased = errors.New("pglease: lease released")
	// ErrNotFound: there is no row of that name.
	ErrNotFound = errors.New("pglease: no such lease")
	// ErrClosed: the client is closed, or being closed.
	ErrClosed = errors.New("pglease: client closed")
	// ErrInvalidName: a name is not 1 to 255 characters of UTF-8, or contains a NUL. Nothing was sent.
	ErrInvalidName = errors.New("pglease: invalid name")
	// ErrNoSchema: the lease table is missing, or lacks columns. The text says where it was looked for.
	ErrNoSchema = errors.New("pglease: no lease table: run Client.EnsureSchema or apply schema/001_leases.sql")
)

// A HeldError says that a lease could not be acquired, because somebody holds it. errors.Is(err, ErrHeld) is true of it.
type HeldError struct {
	// Info is the row as the server saw it. If Info.Expired() is true, somebody had locked the row in that moment:
	// a transaction that passed CheckTx is still open, or another is just taking the lease.
	Info

	note string // why the wait goes on although the term has expired
}

func (e *HeldError) Error() string {
	if e.note != "" && e.Owner == "" {
		return fmt.Sprintf("pglease: %q is held: %s", e.Name, e.note)
	}
	if e.note != "" {
		return fmt.Sprintf("pglease: %q is held by %s: %s", e.Name, e.Owner, e.note)
	}
	if e.Expired() {
		return fmt.Sprintf("pglease: %q is locked: its last term is guarded by an open transaction, or somebody is taking it", e.Name)
	}
	if !e.HeartbeatAt.Before(e.ExpiresAt) {
		return fmt.Sprintf("pglease: %q is released by %s, and kept for another %v (minimum hold)", e.Name, e.Owner, e.Remaining().Round(time.Millisecond))
	}
	return fmt.Sprintf("pglease: %q is held by %s, for another %v unless it is renewed", e.Name, e.Owner, e.Remaining().Round(time.Millisecond))
}

// Is reports whether target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// A LossReason says in a few words how a term was lost.
type LossReason string

// The reasons for which a term ends without a release.
const (
	// LossExpired: no renewal succeeded in time, so the trust deadline passed (also during a suspend or a stop).
	LossExpired LossReason = "not renewed before its trust deadline"
	// LossGone: the server says that the row is not in this term any more: expired, taken over, forced or deleted.
	LossGone LossReason = "expired or taken away on the server"
	// LossSession: the session that held the advisory lock has ended (hybrid).
	LossSession LossReason = "its session ended"
)

// A LostError says that a term ended before its release. errors.Is(err, ErrLost) is true of it.
type LostError struct {
	Name   string
	Token  int64
	Reason LossReason
	Cause  error // the last failure of a renewal, or nil; never with a secret in it
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("pglease: lost %q (token %d): %s", e.Name, e.Token, e.Reason)
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Is reports whether target is ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns Cause.
func (e *LostError) Unwrap() error { return e.Cause }

// An UnsupportedError says that a server, a pooler, a table or a connection cannot do what was asked of it, and what to
// do about that. Trying again without a change is useless.
type UnsupportedError struct {
	Finding string // what was found
	Remedy  string // what to do
}

func (e *UnsupportedError) Error() string { return "pglease: " + e.Finding + ": " + e.Remedy }

// A BackendError is a failure of the database or of the way to it. It is never returned for a lease that is merely held.
//
// It has no Unwrap, since the errors of drivers may contain the password they were configured with. errors.Is finds
// context.Canceled, context.DeadlineExceeded and driver.ErrBadConn in its cause; errors.As hands out an error of the
// server (a type with a method SQLState, such as *pq.Error or *pgconn.PgError), and no other.
type BackendError struct {
	Op       string // what was being done, such as "acquire" or "renew"
	SQLState string // the server's error code, or "" if the error is not the server's

	text   string       // redacted
	cause  func() error // a func, because %#v, JSON and reflection do not look into one
	unsent bool         // the statement has certainly not reached the server
}

func (e *BackendError) Error() string {
	if e.SQLState != "" && !strings.Contains(e.text, "SQLSTATE "+e.SQLState) {
		return fmt.Sprintf("pglease: %s: %s (SQLSTATE %s)", e.Op, e.text, e.SQLState)
	}
	return fmt.Sprintf("pglease: %s: %s", e.Op, e.text)
}

// Is reports whether target is a context error or driver.ErrBadConn, and among the causes.
func (e *BackendError) Is(target error) bool {
	switch target {
	case context.Canceled, context.DeadlineExceeded, driver.ErrBadConn:
		return e.cause != nil && errors.Is(e.cause(), target)
	}
	return false
}

// As sets target to an error of the server among the causes, if its type fits.
func (e *BackendError) As(target any) bool {
	server := serverError(e.cause)
	if server == nil {
		return false
	}
	into := reflect.ValueOf(target).Elem()
	if !reflect.TypeOf(server).AssignableTo(into.Type()) {
		return false
	}
	into.Set(reflect.ValueOf(server))
	return true
}

// sqlState is what every driver's type for an error of the server has.
type sqlState interface {
	error
	SQLState() string
}

func serverError(cause func() error) sqlState {
	var server sqlState
	if cause == nil || !errors.As(cause(), &server) {
		return nil
	}
	return server
}
