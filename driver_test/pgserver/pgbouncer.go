package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// A Bouncer is a PgBouncer in front of a [Server]. It lets everybody in, and is to the server always the superuser.
type Bouncer struct {
	at   target
	dir  string
	proc *process

	mu      sync.Mutex
	stopped bool
}

// StartBouncer starts a PgBouncer for every database of s, on a free port of 127.0.0.1, and returns when it answers; it
// gets 60 s. mode is its pool_mode, "session" or "transaction". [WithSetting] sets further parameters, such as
// default_pool_size, and [WithLog] is the other option it reads. If pgbouncer is neither in PATH nor in /usr/sbin the
// error wraps [ErrNotHere]. If it fails, nothing is left behind. It ends with Stop, or on Linux with this process.
func StartBouncer(ctx context.Context, s *Server, mode string, opts ...Option) (_ *Bouncer, err error) {
	if mode != "session" && mode != "transaction" {
		return nil, fmt.Errorf("pgserver: pgbouncer: no such mode: %q", mode)
	}
	path, err := findBouncer()
	if err != nil {
		return nil, err
	}
	acc, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := makeDir(acc)
	if err != nil {
		return nil, fmt.Errorf("pgserver: pgbouncer: %w", err)
	}
	b := &Bouncer{dir: dir, at: target{
		host: loopback, user: s.at.user, password: s.at.password, database: s.at.database,
		params: url.Values{"sslmode": {"disable"}},
	}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("pgserver: pgbouncer: %w", err), b.Stop())
		}
	}()
	c := newConfig(opts)
	for attempt := 1; ; attempt++ {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		b.at.port = strconv.Itoa(port)
		if err = b.launch(ctx, path, acc, bouncerConfig(s, b, mode, c.settings)); err == nil {
			break
		}
		if attempt == portAttempts || isFree(port) {
			return nil, err
		}
	}
	fmt.Fprintf(c.log, "pgserver: started %s, %s pooling, port %s to port %s\n", path, mode, b.at.port, s.at.port)
	return b, nil
}

func findBouncer() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return filepath.Abs(path)
	}
	const debian = "/usr/sbin/pgbouncer" // not in the PATH of everybody
	if _, err := os.Stat(debian); err == nil {
		return debian, nil
	}
	return "", fmt.Errorf("%w: no pgbouncer in PATH or /usr/sbin", ErrNotHere)
}

func bouncerConfig(s *Server, b *Bouncer, mode string, settings []setting) string {
	host := s.at.host
	if host == "" {
		host = s.at.socket
	}
	quoted := func(v string) string { return "'" + strings.ReplaceAll(v, "'", "''") + "'" }
	var text strings.Builder
	fmt.Fprintf(&text, "[databases]\n* = host=%s port=%s user=%s password=%s\n[pgbouncer]\n",
		quoted(host), s.at.port, quoted(s.at.user), quoted(s.at.password))
	for _, s := range append([]setting{
		{"listen_addr", loopback},
		{"listen_port", b.at.port},
		{"unix_socket_dir", ""},
		{"auth_type", "any"},
		{"pool_mode", mode},
		{"max_client_conn", "500"},
		// lib/pq sends it with every connection; it changes only how floats are printed.
		{"ignore_startup_parameters", "extra_float_digits"},
	}, settings...) {
		fmt.Fprintf(&text, "%s = %s\n", s.name, s.value)
	}
	return text.String()
}

func (b *Bouncer) launch(ctx context.Context, path string, acc account, config string) error {
	ini, logName := filepath.Join(b.dir, "pgbouncer.ini"), filepath.Join(b.dir, "log")
	// The file contains the password.
	if err := errors.Join(os.WriteFile(ini, []byte(config), 0o600), acc.own(ini)); err != nil {
		return err
	}
	log, err := os.Create(logName)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(path, ini)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = b.dir, environment(b.dir), log, log
	acc.adopt(cmd)
	// It keeps nothing on disk, and what its other signals mean differs between versions.
	if b.proc, err = spawn(cmd, syscall.SIGKILL); err != nil {
		return err
	}
	if err := ready(ctx, b.at.dsn(nil), b.proc.done); err != nil {
		tail, _ := os.ReadFile(logName)
		return errors.Join(fmt.Errorf("%w: log: %s", err, tail[max(0, len(tail)-1000):]), b.end())
	}
	return nil
}

// DSN returns a connection string in URL form for a database of the server through the PgBouncer.
func (b *Bouncer) DSN(database string, opts ...DSNOption) string {
	return b.at.dsn(append([]DSNOption{Database(database)}, opts...))
}

// Stop ends the PgBouncer and its connections, and removes its files. After the first call it does nothing and returns
// nil.
func (b *Bouncer) Stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return nil
	}
	b.stopped = true
	return errors.Join(b.end(), os.RemoveAll(b.dir))
}

func (b *Bouncer) end() error {
	if b.proc == nil || b.proc.ended() {
		return nil
	}
	if err := b.proc.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-b.proc.done
	return nil
}
