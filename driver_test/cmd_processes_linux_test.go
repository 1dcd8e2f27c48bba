package driver_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// processes returns the processes of the test that run.
func (e *env) processes() (pids []int) {
	paths, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range paths {
		if pid, _ := strconv.Atoi(filepath.Base(path)); e.runs(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// runs reports whether that process is one of the test, which has its mark in its environment. A zombie has none.
func (e *env) runs(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(b, []byte(mark+"="+e.app+"\x00"))
}

// othersThan counts them without one.
func (e *env) othersThan(pid int) int {
	return len(slices.DeleteFunc(e.processes(), func(p int) bool { return p == pid }))
}

// noProcess waits until none of them runs.
func (e *env) noProcess(t *testing.T) {
	t.Helper()
	if !poll(func() bool { return len(e.processes()) == 0 }) {
		t.Errorf("processes left: %v", e.processes())
	}
}

// guardianOf returns the pid of the guardian of a run, or 0.
func guardianOf(pid int) int {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		stat, err := os.ReadFile(path)
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err != nil || !bytes.HasPrefix(cmdline, []byte("pglease-guardian")) {
			continue
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if string(fields[1]) == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return child
		}
	}
	return 0
}

func exists(pid int) bool {
	_, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return err == nil
}
