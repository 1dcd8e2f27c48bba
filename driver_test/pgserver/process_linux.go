package pgserver

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// spawn starts cmd so that the kernel sends it last when this process ends, however it ends: a killed test leaves no
// server behind.
func spawn(cmd *exec.Cmd, last syscall.Signal) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// To the kernel the parent is the thread that forked, not the process (prctl(2), PR_SET_PDEATHSIG). Go ends
		// threads when it likes, and the server would be shut down with one. So this goroutine keeps its thread for
		// itself, and stays until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Pdeathsig = last
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in cmd.ProcessState
			close(p.done)
		}
	}()
	return p, <-started
}

// listProcesses reads /proc, because ps is not on every machine. Processes that end meanwhile are left out.
func listProcesses() ([]processInfo, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var all []processInfo
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// pid (name) state ppid ...; the name may itself contain blanks and brackets.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(string(fields[1]))
		all = append(all, processInfo{pid: pid, parent: parent, state: fields[0][0]})
	}
	return all, nil
}
