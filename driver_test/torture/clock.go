//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// now reads the clock that all processes of the machine share, and that nobody sets: nanoseconds since it was booted, time
// asleep included.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

// common is a local time on the shared clock. If the process was stopped between its two looks, it looks again.
func common(t time.Time) int64 {
	for {
		before := now()
		left := time.Until(t)
		if now()-before < int64(time.Millisecond) {
			return before + int64(left)
		}
	}
}

// A serverClock is what the server takes for the time: libfaketime is loaded into it, and reads how far it is ahead from a
// file at each look, so that all sessions see a jump at once.
type serverClock struct {
	file   string
	offset time.Duration
}

// libraries are where Debian and others put libfaketime.
var libraries = []string{"/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib64/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime.so.1"}

// newServerClock returns nil if the machine has no libfaketime. What it puts into the environment is for the servers that
// this process starts; clients do not get it.
func newServerClock(dir string) (*serverClock, error) {
	for _, pattern := range libraries {
		found, _ := filepath.Glob(pattern)
		if len(found) == 0 {
			continue
		}
		c := &serverClock{file: filepath.Join(dir, "clock")}
		for _, v := range [][2]string{
			{"LD_PRELOAD", found[0]}, {"FAKETIME_TIMESTAMP_FILE", c.file}, {"FAKETIME_NO_CACHE", "1"}, {"FAKETIME_DONT_FAKE_MONOTONIC", "1"},
		} {
			if err := os.Setenv(v[0], v[1]); err != nil {
				return nil, err
			}
			fakeTime = append(fakeTime, v[0]+"="+v[1])
		}
		return c, c.jump(0)
	}
	return nil, nil
}

// fakeTime is what clients must not have in their environment.
var fakeTime []string

// jump moves the clock. Readers see the old file or the new one.
func (c *serverClock) jump(by time.Duration) error {
	c.offset += by
	next := c.file + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+.6f\n", c.offset.Seconds()), 0o644); err != nil {
		return err
	}
	return os.Rename(next, c.file)
}
