//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

const canStop = true

// apart gives the worker a process group of its own: a Ctrl-C is the demo's, and if the demo is killed while a worker is
// stopped, the kernel continues and ends what would be left.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func stopProcess(p *os.Process) error     { return p.Signal(syscall.SIGSTOP) }
func continueProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
