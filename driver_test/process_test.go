package driver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"testing"
	"time"
)

// Tests that need several processes start this test binary again, in a role.
const (
	roleVariable = "PGLEASE_TEST_ROLE"
	taskVariable = "PGLEASE_TEST_TASK"
)

// roles are what a child process can be. A role ends when its context does, or its work; what it prints to standard
// output is for its parent.
var roles = map[string]func(ctx context.Context, task []byte) error{
	"ensure schema": playEnsure,
	"fight":         playFight,
	"guard":         playGuard,
}

// play is the main function of a child. Its end is that of its parent at the latest: then standard input ends.
func play(role string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := roles[role](ctx, []byte(os.Getenv(taskVariable))); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
		return 1
	}
	return 0
}

// A child is a process in a role.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
	errs  *tail
}

// spawn starts a child, which is ended when t ends.
func spawn(t *testing.T, role string, task any) *child {
	t.Helper()
	encoded, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, taskVariable+"="+string(encoded))
	cmd.WaitDelay = patience
	c := &child{cmd: cmd, errs: &tail{}}
	cmd.Stderr = c.errs
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(stdout)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return c
}

// stop has the child end.
func (c *child) stop() { _ = c.stdin.Close() }

// wait returns when the child has ended, with what it said if it failed. A child that goes on is killed.
func (c *child) wait() error {
	killer := time.AfterFunc(3*patience, func() { _ = c.cmd.Process.Kill() })
	defer killer.Stop()
	for c.lines.Scan() {
	}
	if err := c.cmd.Wait(); err != nil {
		return errors.Join(err, errors.New(string(c.errs.text)))
	}
	return nil
}

// tail keeps the first of what is written to it.
type tail struct{ text []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b[:min(len(b), 4000-min(len(t.text), 4000))]...)
	return len(b), nil
}
