package pglease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pglease/pglease-go/pglease/internal/redact"
)

// SQLSTATE codes that mean something to us (PostgreSQL manual, appendix A).
const (
	stateDuplicateColumn    = "42701"
	stateDuplicateObject    = "42710"
	stateDuplicateTable     = "42P07"
	stateUniqueViolation    = "23505"
	stateDeadlock           = "40P01"
	stateInternal           = "XX000" // "tuple concurrently updated", of DDL
	stateLockNotAvailable   = "55P03"
	stateNoPrivilege        = "42501"
	statePlanChanged        = "0A000" // "cached plan must not change result type" (D4)
	stateProtocol           = "08P01" // also: not the parameters that the prepared statement has
	stateReadOnly           = "25006"
	stateSerialization      = "40001"
	stateStatementMissing   = "26000"
	stateStatementExists    = "42P05"
	stateTransactionAborted = "25P02"
	stateUndefinedColumn    = "42703"
	stateUndefinedTable     = "42P01"
	stateSchemaMissing      = "3F000"
	stateTooManyConnections = "53300"
	stateInvalidCatalog     = "3D000"
	stateInvalidPassword    = "28P01"
	stateQueryCanceled      = "57014"
	stateTransactionTimeout = "25P04"
	stateInvalidAuth        = "28000"
)

// remedies say what to do about an error of the server.
var remedies = map[string]string{
	stateReadOnly:           "the server is read only (a standby, a demoted primary, or default_transaction_read_only): connect to the primary",
	stateNoPrivilege:        "the role lacks a right: schema/grants.sql has those that leases need; only the table's owner can upgrade it, and to create it takes GRANT CREATE ON SCHEMA",
	stateStatementMissing:   "a pooler in transaction mode and prepared statements: with pgx, use default_query_exec_mode=exec, with lib/pq binary_parameters=yes",
	stateStatementExists:    "a pooler in transaction mode and prepared statements: with pgx, use default_query_exec_mode=exec, with lib/pq binary_parameters=yes",
	stateTransactionAborted: openTransaction.Finding,
	stateTooManyConnections: "every lease of the hybrid backend pins a connection, and every client with leases keeps one",
}

// opCheck is the Op of CheckTx, whose statement is sent in a transaction of the caller's.
const opCheck = "check"

// inCallersTransaction are the remedies that are others there.
var inCallersTransaction = map[string]string{
	stateReadOnly:           "the transaction is read only: the check locks the row of the lease, and needs one that may write",
	stateTransactionAborted: "an earlier statement of the transaction has failed: roll it back, and let the check be the first statement",
	stateSerialization:      "the lease was taken over or changed since the transaction's snapshot: retry the transaction",
	stateDeadlock:           "let the check be the first statement, before the transaction locks anything else, and retry it",
}

// openTransaction is the error for a connection of the caller on which the caller has opened a transaction (P11).
var openTransaction = &UnsupportedError{
	Finding: "the connection has an open transaction, whose rollback would take the lease back",
	Remedy:  "give the client a connection of its own, or a *sql.DB",
}

// newBackendError is the one place where an error of a driver enters: its text is redacted, and the error itself is
// hidden, because it may contain the password that the driver was configured with (X1).
func newBackendError(op string, err error, r *redact.Redactor) *BackendError {
	e := &BackendError{Op: op, text: r.String(err.Error()), cause: func() error { return err }}
	e.unsent = errors.As(err, new(*unsentError))
	if server := serverError(e.cause); server != nil {
		e.SQLState = server.SQLState()
	}
	remedy := remedies[e.SQLState]
	if in := inCallersTransaction[e.SQLState]; op == opCheck && in != "" {
		remedy = in
	}
	if remedy != "" {
		e.text += ": " + remedy
	}
	return e
}

// stateOf returns the SQLSTATE of an error of the server, or "".
func stateOf(err error) string {
	var server sqlState
	if errors.As(err, &server) {
		return server.SQLState()
	}
	return ""
}

// fault turns the error of a driver into one of ours. On its way it finds out what a missing table means.
func (t *tableBackend) fault(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	var unsupported *UnsupportedError
	if errors.As(err, &unsupported) {
		return unsupported
	}
	switch stateOf(err) {
	case stateUndefinedTable, stateUndefinedColumn, stateSchemaMissing:
		return t.noSchema(ctx, err)
	}
	e := newBackendError(op, err, t.redact)
	if end := endOf(ctx); end != nil { // drivers tell of that in ways of their own: 57014, an i/o timeout, a bad connection
		e.cause = func() error { return errors.Join(err, end) }
	}
	return e
}

// endOf is ctx.Err, also in the moment in which a deadline has struck a connection and not yet the context.
func endOf(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

func (t *tableBackend) noSchema(ctx context.Context, err error) error {
	// It waits for a connection of the pool, whose last one may be the caller's (P2, CheckTx).
	ctx, cancel := limit(ctx, time.Second)
	defer cancel()
	where := ""
	_ = t.runFor(ctx, time.Second, true, func(ctx context.Context, s statements) error {
		path, err := queries.SearchPath(ctx, s)
		if err == nil {
			where = fmt.Sprintf(" (search_path is %s)", path)
		}
		return err
	})
	if stateOf(err) == stateSchemaMissing {
		where += ": no schema of the search_path exists: create it, or correct the search_path"
	}
	return fmt.Errorf("%w: %s%s", ErrNoSchema, t.redact.String(err.Error()), where)
}

// closedDB is the text of database/sql's error for a closed DB, which it does not export.
const closedDB = "sql: database is closed"

// retryable reports whether the same call may succeed a little later, without anybody changing a setting.
func retryable(err error) bool {
	var unsupported *UnsupportedError
	switch {
	case err == nil, errors.As(err, &unsupported), errors.Is(err, ErrClosed), errors.Is(err, ErrInvalidName),
		errors.Is(err, ErrNoSchema), errors.Is(err, sql.ErrConnDone):
		return false
	}
	var b *BackendError
	if !errors.As(err, &b) {
		return false
	}
	if b.cause != nil && errors.Is(b.cause(), sql.ErrConnDone) || strings.HasSuffix(b.text, closedDB) {
		return false
	}
	switch b.SQLState {
	case stateNoPrivilege, stateInvalidCatalog, stateInvalidPassword, stateInvalidAuth:
		return false
	}
	return true
}

// doubtful reports whether an attempt that failed with err may have been granted all the same: whenever the server has
// not said no. driver.ErrBadConn should mean that nothing was sent, but lib/pq returns it whenever a connection ends.
func doubtful(err error) bool {
	var b *BackendError
	if !errors.As(err, &b) || b.unsent {
		return false
	}
	class := b.SQLState + "  "
	return b.SQLState == "" || class[:2] == "57" || class[:2] == "08"
}
