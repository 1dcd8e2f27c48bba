//go:build unix

package pgserver

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCrashKeepsWhatWasCommitted(t *testing.T) {
	s := startLocalServer(t)
	ctx := testContext(t)
	mustExec(t, s.DSN(), "CREATE TABLE kept AS SELECT 42 AS value")
	for _, down := range []func() error{s.Crash, s.Crash, s.Shutdown} {
		if err := down(); err != nil {
			t.Fatal(err)
		}
		if err := execute(ctx, s.DSN(), "SELECT 1"); err == nil {
			t.Fatal("the server answers")
		}
	}
	for _, down := range []func() error{s.Shutdown, s.Crash} {
		port := s.at.port
		if err := s.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if s.at.port != port {
			t.Errorf("port %s became %s", port, s.at.port)
		}
		if err := s.Restart(ctx); err == nil {
			t.Error("a running server was restarted")
		}
		mustQuery(t, s.DSN(), "SELECT value FROM kept", 42)
		if err := down(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFrozenServerAnswersNothingAndLosesNothing(t *testing.T) {
	s := startLocalServer(t)
	db, err := sql.Open("pgx", s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx := testContext(t)
	idle, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	for range 2 {
		if err := s.Freeze(); err != nil {
			t.Fatal(err)
		}
	}
	for what, dsn := range map[string]string{"TCP": s.DSN(), "Unix": s.DSN(Unix())} {
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		if err := execute(short, dsn, "SELECT 1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s, new connection: %v", what, err)
		}
		cancel()
	}
	answer := make(chan error, 1)
	go func() {
		_, err := idle.ExecContext(ctx, "SELECT 1")
		answer <- err
	}()
	select {
	case err := <-answer:
		t.Fatalf("a frozen connection answered: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	for range 2 {
		if err := s.Thaw(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-answer; err != nil {
		t.Errorf("the connection did not survive: %v", err)
	}
	mustQuery(t, s.DSN(), "SELECT 1", 1)
}

func TestStandbyStreamsAndIsPromoted(t *testing.T) {
	s := startLocalServer(t, WithTLS())
	ctx := testContext(t)
	standby, err := s.Standby(ctx, Synchronous(), WithSetting("work_mem", "123kB"), WithLog(t.Output()))
	if errors.Is(err, ErrNotHere) {
		NotRun(t, "standby", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer standby.Stop()
	mustQuery(t, standby.DSN(TLS()), "SELECT current_setting('work_mem')", "123kB")
	// With remote_apply a commit returns when the standby shows it.
	mustExec(t, s.DSN(Param("synchronous_commit", "remote_apply")), "CREATE TABLE sent AS SELECT 7 AS value")
	mustQuery(t, standby.DSN(), "SELECT value FROM sent", 7)
	if err := s.Promote(ctx); err == nil {
		t.Error("a primary was promoted")
	}
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(ctx); err != nil {
		t.Fatal(err)
	}
	mustExec(t, standby.DSN(Unix()), "INSERT INTO sent VALUES (8)")
}

func TestPrimaryOutlivesItsSynchronousStandby(t *testing.T) {
	s := startLocalServer(t)
	standby, err := s.Standby(testContext(t), Synchronous(), WithLog(t.Output()))
	if errors.Is(err, ErrNotHere) {
		NotRun(t, "standby", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := standby.Stop(); err != nil {
		t.Fatal(err)
	}
	mustExec(t, s.DSN(), "CREATE TABLE alone ()")
}

func TestStopLeavesNothing(t *testing.T) {
	for name, prepare := range map[string]func(*Server) error{
		"running": func(*Server) error { return nil },
		"crashed": (*Server).Crash,
		"frozen":  (*Server).Freeze,
	} {
		t.Run(name, func(t *testing.T) {
			s := startLocalServer(t)
			db, err := sql.Open("pgx", s.DSN())
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := db.PingContext(testContext(t)); err != nil { // a client that stays connected
				t.Fatal(err)
			}
			postmaster := s.local.proc.cmd.Process.Pid
			family, err := descendants(postmaster)
			if err != nil || len(family) < 3 {
				t.Fatalf("%d children, %v", len(family), err)
			}
			if err := prepare(s); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := s.Stop(); err != nil {
					t.Fatal(err)
				}
			}
			if err := gone(append(family, postmaster)); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(s.local.dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", s.local.dir, err)
			}
			if err := s.Restart(testContext(t)); err == nil {
				t.Error("a stopped server was restarted")
			}
		})
	}
}

// gone looks only at processes that still run: one that nobody has waited for is not the server's doing.
func gone(pids []int) error {
	all, err := listProcesses()
	if err != nil {
		return err
	}
	for _, p := range all {
		if slices.Contains(pids, p.pid) && p.state != 'Z' {
			return fmt.Errorf("process %d is there, state %c", p.pid, p.state)
		}
	}
	return nil
}

func TestServerEndsWithItsProcess(t *testing.T) {
	const variable = "PGSERVER_TEST_CHILD"
	if state := os.Getenv(variable); state != "" {
		serveUntilKilled(t, state)
		return
	}
	if runtime.GOOS != "linux" {
		NotRun(t, "linux", "only Linux tells a child that its parent ended")
	}
	if err := findable(); err != nil {
		NotRun(t, "local", err.Error())
	}
	for _, state := range []string{"running", "frozen"} {
		t.Run(state, func(t *testing.T) {
			child := exec.CommandContext(testContext(t), os.Args[0], "-test.run=^TestServerEndsWithItsProcess$")
			child.Env = append(os.Environ(), variable+"="+state)
			child.Stderr = t.Output()
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdin, err := child.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			var postmaster int
			var dir string
			for line := bufio.NewScanner(out); dir == "" && line.Scan(); {
				_, _ = fmt.Sscanf(line.Text(), "child %d %s", &postmaster, &dir)
			}
			family, err := descendants(postmaster)
			if dir == "" || err != nil {
				t.Fatalf("no server in the child: %v", err)
			}
			defer os.RemoveAll(dir)
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = child.Wait()
			err = until(testContext(t), nil, func(context.Context) error { return gone(append(family, postmaster)) })
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// serveUntilKilled is what the child does.
func serveUntilKilled(t *testing.T, state string) {
	s := startLocalServer(t)
	if state == "frozen" {
		if err := s.Freeze(); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println(strings.Join([]string{"child", fmt.Sprint(s.local.proc.cmd.Process.Pid), s.local.dir}, " "))
	_, _ = io.ReadAll(os.Stdin)
}
