package pgserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// A Kind says where a [Server] comes from.
type Kind int

const (
	DSN      Kind = iota + 1 // named by PGLEASE_TEST_DSN, not started here
	Docker                   // a container
	Local                    // server binaries on this machine; the only kind that can be made to fail
	Embedded                 // binaries downloaded by embedded-postgres
)

func (k Kind) String() string {
	switch k {
	case DSN:
		return "DSN"
	case Docker:
		return "Docker"
	case Local:
		return "Local"
	case Embedded:
		return "Embedded"
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// ErrNotHere is wrapped, with the reason, by the error of everything that this kind of server or this machine can't do.
var ErrNotHere = errors.New("pgserver: not possible here")

// A Server is one PostgreSQL server. Its methods may be called from several goroutines.
type Server struct {
	kind   Kind
	at     target
	origin string       // what it was started from, for the log line
	remove func() error // ends it and removes what it left; nil if there is nothing to end
	local  *local       // nil unless the kind is Local

	mu        sync.Mutex
	databases map[string]bool // made by CreateDatabase and not dropped yet
	stopped   bool
}

// Start returns the first server that works of
//
//   - DSN: PGLEASE_TEST_DSN, in URL form, whose user may create databases;
//   - Docker: a container of the image PGLEASE_TEST_IMAGE, by default postgres:17-alpine, pulled if it isn't there;
//   - Local: the binaries in PGLEASE_TEST_BIN, which leaves Docker and Embedded out, else those of PATH, else the newest of
//     [Binaries], run by the user postgres or nobody if this process is root;
//   - Embedded: binaries that embedded-postgres downloads and keeps in its cache below the home directory.
//
// The superuser is pglease, with a random password that [Server.DSN] contains; max_connections is 200; everything else,
// durability included, is PostgreSQL's default unless an option says otherwise. A server gets 60 s to answer, less if
// ctx ends earlier; the pull of an image gets 2 min.
//
// If no server can be had, the error's text is two lines: what to install, and why each kind was not taken. Nothing is
// left behind then, except that every try of Embedded leaves a file embedded_postgres_log* in the temporary directory:
// its library never removes it. ctx is for the start only: the server runs until [Server.Stop].
func Start(ctx context.Context, opts ...Option) (*Server, error) {
	c := newConfig(opts)
	starters := map[Kind]func(context.Context, *config) (*Server, error){
		DSN:      startDSN,
		Docker:   startDocker,
		Local:    startLocal,
		Embedded: startEmbedded,
	}
	var missed []string
	for _, kind := range c.kinds {
		start, ok := starters[kind]
		if !ok {
			return nil, fmt.Errorf("pgserver: no such kind: %v", kind)
		}
		s, err := start(ctx, c)
		if err == nil {
			s.announce(ctx, c, missed)
			return s, nil
		}
		missed = append(missed, fmt.Sprintf("%v: %s", kind, oneLine(err)))
		if ctx.Err() != nil {
			return nil, fmt.Errorf("pgserver: start: %w (%s)", context.Cause(ctx), strings.Join(missed, "; "))
		}
	}
	return nil, fmt.Errorf("%w: no PostgreSQL server: install one (apt-get install postgresql, brew install postgresql@17), "+
		"or start Docker, or set PGLEASE_TEST_DSN or PGLEASE_TEST_BIN\ntried %s", ErrNotHere, strings.Join(missed, "; "))
}

// announce writes the one line about the start. Its own failure to learn the version is no reason to refuse a server
// that has already answered.
func (s *Server) announce(ctx context.Context, c *config, missed []string) {
	version := ""
	if major, err := s.Version(ctx); err == nil {
		version = fmt.Sprintf(" %d", major)
	}
	why := ""
	if len(missed) > 0 {
		why = " (not taken: " + strings.Join(missed, "; ") + ")"
	}
	fmt.Fprintf(c.log, "pgserver: took %v: PostgreSQL%s, %s, port %s%s\n", s.kind, version, s.origin, s.at.port, why)
}

func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

// Kind says where the server comes from.
func (s *Server) Kind() Kind { return s.kind }

// Stop ends the server and removes everything it left: processes, data directory, container; of kind DSN, where the
// server stays, the databases that [Server.CreateDatabase] made. It does not wait for clients. A frozen or crashed
// server is stopped too. Of kind Embedded its cache of binaries and a log file stay. After the first call it does
// nothing and returns nil.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	if s.remove != nil {
		return s.remove()
	}
	return nil
}

// here returns the error of a fault or another ability that only Local has.
func (s *Server) here(ability string) error {
	if s.local == nil {
		return fmt.Errorf("%w: %s: the server is of kind %v, only Local can", ErrNotHere, ability, s.kind)
	}
	return nil
}
