package pgserver

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of this package's own connections
)

const (
	startLimit   = 60 * time.Second // for a started server to answer, crash recovery included
	dsnLimit     = 5 * time.Second  // for the server of PGLEASE_TEST_DSN, which should be up already
	attemptLimit = 2 * time.Second  // for one connection while a server starts
	retryPause   = 25 * time.Millisecond
	cleanupLimit = 10 * time.Second // for statements that Stop runs
)

// Version returns the server's major version, such as 17.
func (s *Server) Version(ctx context.Context) (int, error) {
	number, err := queryValue[int](ctx, s.DSN(), "SELECT current_setting('server_version_num')::int")
	if err != nil {
		return 0, fmt.Errorf("pgserver: version: %w", err)
	}
	return number / 10000, nil
}

// CreateDatabase makes an empty database, a copy of template0, and returns its random name, which needs no quotes. It
// stays until [Server.DropDatabase] or [Server.Stop].
func (s *Server) CreateDatabase(ctx context.Context) (name string, err error) {
	name = "pgl_" + randomName()
	// Noted before the statement: if ctx ends while it runs, the database may exist all the same.
	s.mu.Lock()
	if s.databases == nil {
		s.databases = map[string]bool{}
	}
	s.databases[name] = true
	s.mu.Unlock()
	if err := execute(ctx, s.DSN(), "CREATE DATABASE "+quote(name)+" TEMPLATE template0"); err != nil {
		return "", fmt.Errorf("pgserver: create database: %w", err)
	}
	return name, nil
}

// DropDatabase drops the database and ends its connections. It is no error if there is none of that name.
func (s *Server) DropDatabase(ctx context.Context, name string) error {
	if err := s.dropDatabase(ctx, name); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.databases, name)
	s.mu.Unlock()
	return nil
}

func (s *Server) dropDatabase(ctx context.Context, name string) error {
	major, err := s.Version(ctx)
	if err != nil {
		return err
	}
	drop := "DROP DATABASE IF EXISTS " + quote(name)
	if major >= 13 {
		drop += " WITH (FORCE)"
	} else if err := execute(ctx, s.DSN(),
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name); err != nil {
		return fmt.Errorf("pgserver: drop database: %w", err)
	}
	if err := execute(ctx, s.DSN(), drop); err != nil {
		return fmt.Errorf("pgserver: drop database: %w", err)
	}
	return nil
}

// dropAll is Stop for a server that goes on running. The caller holds s.mu.
func (s *Server) dropAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
	defer cancel()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.databases)) {
		errs = append(errs, s.dropDatabase(ctx, name))
	}
	return errors.Join(errs...)
}

// ready waits until the server of dsn answers SELECT 1, or gone is closed, or startLimit or ctx ends.
func ready(ctx context.Context, dsn string, gone <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return until(ctx, gone, func(ctx context.Context) error { return execute(ctx, dsn, "SELECT 1") })
}

// until calls try, with a deadline of its own, until it returns nil. It gives up with try's last error when gone is
// closed or ctx ends.
func until(ctx context.Context, gone <-chan struct{}, try func(context.Context) error) error {
	tick := time.NewTicker(retryPause)
	defer tick.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, attemptLimit)
		err := try(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-gone:
			return fmt.Errorf("the process ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// execute runs one statement on a connection of its own, so that nothing of it stays open on the server.
func execute(ctx context.Context, dsn, statement string, args ...any) error {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statement, args...)
	return err
}

func queryValue[T any](ctx context.Context, dsn, query string, args ...any) (value T, err error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return value, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, query, args...).Scan(&value)
	return value, err
}

func quote(identifier string) string { return pgx.Identifier{identifier}.Sanitize() }

func randomName() string { return strings.ToLower(rand.Text()[:16]) }
