//go:build unix

package main

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

const patience = 20 * time.Second

// A group is a process that leads one, and that ends when it is killed.
func group(t *testing.T) (pgid int, ended chan error) {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	gone := make(chan struct{})
	go func() { ended <- cmd.Wait(); close(gone) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-gone })
	return cmd.Process.Pid, ended
}

// W5: the guardian kills when the pipe ends, and when the time is over; not when it was dismissed, or knows of no group.
func TestGuard(t *testing.T) {
	for _, tt := range []struct {
		what   string
		orders string // %d is the group
		end    bool   // of the pipe
		kills  bool
		code   int
	}{
		{"the pipe ends", "watch %d\nkill-after 3600000000000 9000000000000000000\n", true, true, 0},
		{"the time is over", "watch %d\nkill-after 20000000 9000000000000000000\n", false, true, guardianTimeUp},
		{"the wall clock is over", "watch %d\nkill-after 3600000000000 1\n", false, true, guardianTimeUp},
		{"moved on and dismissed", "watch %d\nkill-after 60000000000 9000000000000000000\ndismissed\n", false, false, 0},
		{"the time is over before the group is known", "kill-after 0 1\nwatch %d\n", false, true, guardianTimeUp},
		{"both are there: the time is over, and there is more", "watch %d\nkill-after 0 1\nkill-after 60000000000 9000000000000000000\ndismissed\n", false, false, 0},
		{"no group", "", true, false, 0},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			pgid, ended := group(t)
			r, w := io.Pipe()
			done := make(chan int, 1)
			go func() { done <- guard(r, io.Discard) }()
			if tt.orders != "" {
				text := tt.orders
				fmt.Fprintf(w, text, pgid)
			}
			if tt.end {
				_ = w.Close()
			}
			select {
			case code := <-done:
				if code != tt.code {
					t.Errorf("exit code %d, want %d", code, tt.code)
				}
			case <-time.After(patience):
				t.Fatal("the guardian did not end")
			}
			_ = w.Close()
			if !tt.kills {
				if err := syscall.Kill(pgid, 0); err != nil {
					t.Errorf("the group has ended: %v", err)
				}
				return
			}
			select {
			case <-ended:
			case <-time.After(patience):
				t.Error("the group was not killed")
			}
		})
	}
}
