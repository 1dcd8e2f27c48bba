package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pglease/pglease-go/pglease"
)

// The exit codes of our own. Those from sysexits.h mean what they mean there; 124, 126 and 127 are what timeout(1), env(1) and
// the shells use. A command that is run may end with any of them too: then there is no line of ours on standard error.
const (
	codeOK       = 0
	codeNo       = 1   // the answer is no: not found, not free, findings
	codeUsage    = 64  // EX_USAGE
	codeDatabase = 69  // EX_UNAVAILABLE
	codeSystem   = 71  // EX_OSERR
	codeHeld     = 75  // EX_TEMPFAIL
	codeUnfit    = 78  // EX_CONFIG
	codeLost     = 79  // the first after those of sysexits.h
	codeTimeout  = 124 // timeout(1)
	codeCannot   = 126 // env(1)
	codeNotFound = 127 // env(1)
	codeSignal   = 128 // and the number of the signal
)

const codesHelp = `Exit codes of pglease itself, each with one line on standard error that says why:
    1  the answer is no (show, release); doctor: 1 for a warning, 2 for an error
   64  bad usage
   69  no database: it cannot be reached, or failed
   71  the operating system refused something
   75  held by another
   78  the database cannot be used as it is: no lease table, read only, a right is missing, a pooler in between
   79  the lease was lost while the command ran
  124  timed out waiting for the lease
  126  the command cannot be run
  127  the command was not found
128+n  ended by signal n`

// An exitError is the end of the command: the code, and the line on standard error.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

func exit(code int, format string, args ...any) *exitError {
	return &exitError{code, fmt.Sprintf(format, args...)}
}

func usage(format string, args ...any) *exitError { return exit(codeUsage, format, args...) }

// failure is how an error of the library ends the command.
func failure(err error) error {
	var (
		e           *exitError
		unsupported *pglease.UnsupportedError
		backend     *pglease.BackendError
	)
	text := ""
	if err != nil {
		text = strings.TrimPrefix(err.Error(), "pglease: ")
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, pglease.ErrInvalidName):
		return exit(codeUsage, "%s", text)
	case errors.Is(err, pglease.ErrHeld) && errors.Is(err, context.DeadlineExceeded):
		return exit(codeTimeout, "timed out waiting: %s", strings.TrimPrefix(text, context.DeadlineExceeded.Error()+": pglease: "))
	case err == context.DeadlineExceeded: // the wait was over before the first answer
		return exit(codeTimeout, "timed out waiting: the database has not answered in that time")
	case errors.Is(err, pglease.ErrHeld):
		return exit(codeHeld, "%s", text)
	case errors.Is(err, pglease.ErrLost):
		return exit(codeLost, "%s", text)
	case errors.Is(err, pglease.ErrNotFound):
		return exit(codeNo, "%s", text)
	case errors.Is(err, pglease.ErrNoSchema):
		const ofLibrary = "run Client.EnsureSchema or apply schema/001_leases.sql"
		return exit(codeUnfit, "%s", strings.Replace(text, ofLibrary, "run \"pglease schema apply\"", 1))
	case errors.As(err, &unsupported):
		return exit(codeUnfit, "%s", text)
	case errors.As(err, &backend) && (backend.SQLState == "42501" || backend.SQLState == "25006"):
		const ofLibrary = "schema/grants.sql has those that leases need"
		return exit(codeUnfit, "%s", strings.Replace(text, ofLibrary, "\"pglease schema print --grants\" prints those that leases need", 1))
	}
	return exit(codeDatabase, "%s", text)
}
