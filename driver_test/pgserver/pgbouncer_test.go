package pgserver

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"testing"
)

func startTestBouncer(t *testing.T, s *Server, mode string, opts ...Option) *Bouncer {
	t.Helper()
	b, err := StartBouncer(testContext(t), s, mode, append(opts, WithLog(t.Output()))...)
	if errors.Is(err, ErrNotHere) {
		NotRun(t, "pgbouncer", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	return b
}

// TestBouncerKeepsASessionOnlyInSessionMode holds two client connections against a pool of one server connection: in
// session mode the second one waits, in transaction mode both get the same backend.
func TestBouncerKeepsASessionOnlyInSessionMode(t *testing.T) {
	s := startLocalServer(t)
	ctx := testContext(t)
	name, err := s.CreateDatabase(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for mode, shared := range map[string]bool{"session": false, "transaction": true} {
		t.Run(mode, func(t *testing.T) {
			b := startTestBouncer(t, s, mode, WithSetting("default_pool_size", "1"), WithSetting("query_wait_timeout", "1"))
			db, err := sql.Open("pgx", b.DSN(name, Param("default_query_exec_mode", "simple_protocol")))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			first, pid, err := backend(ctx, db)
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close()
			second, other, err := backend(ctx, db)
			if !shared {
				if err == nil {
					t.Errorf("a second session got backend %d", other)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer second.Close()
			if pid != other {
				t.Errorf("backends %d and %d", pid, other)
			}
		})
	}
}

func backend(ctx context.Context, db *sql.DB) (conn *sql.Conn, pid int, err error) {
	if conn, err = db.Conn(ctx); err != nil {
		return nil, 0, err
	}
	if err = conn.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return nil, 0, errors.Join(err, conn.Close())
	}
	return conn, pid, nil
}

func TestBouncerStopLeavesNothing(t *testing.T) {
	b := startTestBouncer(t, startLocalServer(t), "session")
	for range 2 {
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if !b.proc.ended() {
		t.Error("the process runs")
	}
	if _, err := os.Stat(b.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", b.dir, err)
	}
}

func TestBouncerSaysWhatIsWrongWithItsSettings(t *testing.T) {
	s := startLocalServer(t)
	startTestBouncer(t, s, "session") // ends the test where there is none
	before := tempEntries(t)
	for _, mode := range []string{"statement", "session"} {
		if _, err := StartBouncer(testContext(t), s, mode, WithSetting("no_such_setting", "1")); err == nil {
			t.Errorf("%s: started", mode)
		}
	}
	if after := tempEntries(t); after > before {
		t.Errorf("%d directories more than before", after-before)
	}
}
