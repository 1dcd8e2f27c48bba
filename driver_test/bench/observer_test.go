//go:build unix

package main

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/pgleasetest"
)

// TestNothingIsAllocatedForAnAbsentObserver has the runtime write down each allocation of thousands of acquires and releases, and
// looks for one that happened where events are made, or sent: a line of package pglease that makes an Event or calls observe.
func TestNothingIsAllocatedForAnAbsentObserver(t *testing.T) {
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 1
	defer func() { runtime.MemProfileRate = rate }()
	ctx := context.Background()
	c, err := pglease.New(nil, pglease.WithBackend(pgleasetest.NewMemory()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	for range 2000 {
		l, err := c.TryAcquire(ctx, "observed by nobody")
		if err == nil {
			_, _ = c.TryAcquire(ctx, "observed by nobody") // refused
			err = l.Renew(ctx)
		}
		if err == nil {
			err = l.Release(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	of := linesOfEvents(t)
	runtime.GC()
	runtime.GC()
	var records []runtime.MemProfileRecord
	for n, ok := 1000, false; !ok; n *= 2 {
		records = make([]runtime.MemProfileRecord, n)
		if n, ok = runtime.MemProfile(records, true); ok {
			records = records[:n]
		}
	}
	seen := 0 // allocations of the package at all, or the profile has nothing to say
	for _, r := range records {
		for frames, more := runtime.CallersFrames(r.Stack()), true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			lines, ours := of[f.File]
			if !ours {
				continue
			}
			seen++
			if lines[f.Line] && r.AllocObjects >= 100 {
				t.Errorf("%d allocations at %s:%d", r.AllocObjects, f.File, f.Line)
			}
		}
	}
	if seen == 0 {
		t.Error("the profile shows no allocation of package pglease")
	}
}

// linesOfEvents returns the lines of package pglease that are there for the observer alone, by file.
func linesOfEvents(t *testing.T) map[string]map[int]bool {
	_, here, _, _ := runtime.Caller(0)
	files, err := filepath.Glob(filepath.Join(filepath.Dir(here), "../../pglease/*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of package pglease (%v)", err)
	}
	of, found := map[string]map[int]bool{}, 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		of[name] = map[int]bool{}
		scanner := bufio.NewScanner(file)
		for n := 1; scanner.Scan(); n++ {
			if line := scanner.Text(); strings.Contains(line, "Event{") || strings.Contains(line, "observe(") || strings.Contains(line, "observer.Observe(") {
				of[name][n] = true
				found++
			}
		}
		if err := scanner.Err(); err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
	}
	if found < 10 {
		t.Errorf("%d lines make or send events: does the test look for the right ones?", found)
	}
	return of
}
