package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Standby starts a streaming standby of the server, from a base backup and with the server's binaries, settings and
// passwords, and returns when it answers and streams; with [Synchronous] when commits wait for it. [WithSetting]
// changes its settings, [WithLog] where it says so. It is a server of its own that has to be stopped, before or after
// the primary. If it fails, nothing is left behind. Local only, else [ErrNotHere].
func (s *Server) Standby(ctx context.Context, opts ...Option) (_ *Server, err error) {
	if err := s.here("standby"); err != nil {
		return nil, err
	}
	if _, err := os.Stat(s.local.path("pg_basebackup")); err != nil {
		return nil, fmt.Errorf("%w: standby: %w", ErrNotHere, err)
	}
	c := newConfig(opts)
	l, err := newLocal(s.local.bin)
	if err != nil {
		return nil, fmt.Errorf("pgserver: standby: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("pgserver: standby: %w", err), l.destroy())
		}
	}()
	// --write-recovery-conf keeps the password it connects with. The name by which the primary knows the standby is its
	// cluster_name.
	if err := l.run(ctx, []string{"PGPASSWORD=" + s.at.password}, "pg_basebackup", "--pgdata="+l.data,
		"--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync",
		"--host="+s.at.host, "--port="+s.at.port, "--username="+s.at.user); err != nil {
		return nil, err
	}
	name := "standby_" + randomName()
	l.flags = []string{"-c", "cluster_name=" + name}
	// The backup copies the primary's ALTER SYSTEM too. Left so, a standby promoted later would wait for its siblings.
	auto := filepath.Join(l.data, "postgresql.auto.conf")
	if err := errors.Join(appendFile(auto, "synchronous_standby_names = ''\n"), l.addSettings(c.settings)); err != nil {
		return nil, err
	}
	at := s.at
	at.socket = l.socket
	if at.ca != "" {
		at.ca = filepath.Join(l.data, "ca.crt")
	}
	standby := &Server{kind: Local, at: at, origin: "standby of port " + s.at.port, local: l, remove: l.destroy}
	if err := standby.startOnFreePort(ctx); err != nil {
		return nil, err
	}
	if c.synchronous {
		l.primary = s
		if err := s.nameStandby(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := s.awaitStandby(ctx, name, c.synchronous); err != nil {
		return nil, err
	}
	standby.announce(ctx, c, nil)
	return standby, nil
}

func (s *Server) nameStandby(ctx context.Context, name string) error {
	err := execute(ctx, s.DSN(), `ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 ("`+name+`")'`)
	return errors.Join(err, execute(ctx, s.DSN(), "SELECT pg_reload_conf()"))
}

// forgetStandby is best effort: a primary that is down, frozen or stopped has no commits that could wait.
func forgetStandby(primary *Server) {
	ctx, cancel := context.WithTimeout(context.Background(), attemptLimit)
	defer cancel()
	if execute(ctx, primary.DSN(), "ALTER SYSTEM RESET synchronous_standby_names") == nil {
		_ = execute(ctx, primary.DSN(), "SELECT pg_reload_conf()")
	}
}

func (s *Server) awaitStandby(ctx context.Context, name string, synchronous bool) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return until(ctx, nil, func(ctx context.Context) error {
		state, err := queryValue[string](ctx, s.DSN(),
			"SELECT state || ' ' || sync_state FROM pg_stat_replication WHERE application_name = $1", name)
		if err != nil {
			return fmt.Errorf("replication: %w", err)
		}
		if state == "streaming sync" || (!synchronous && state == "streaming async") {
			return nil
		}
		return fmt.Errorf("replication is %s", state)
	})
}

// Promote makes a standby a primary of its own and returns when it accepts writes; it gets 60 s. The old primary is
// neither asked nor told. Local only, else [ErrNotHere]; an error if the server is no standby.
func (s *Server) Promote(ctx context.Context) error {
	if err := s.here("promote"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := execute(ctx, s.DSN(), "SELECT pg_promote(false)"); err != nil {
		return fmt.Errorf("pgserver: promote: %w", err)
	}
	err := until(ctx, nil, func(ctx context.Context) error {
		recovering, err := queryValue[bool](ctx, s.DSN(), "SELECT pg_is_in_recovery()")
		if err == nil && recovering {
			err = errors.New("still in recovery")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("pgserver: promote: %w", err)
	}
	return nil
}
