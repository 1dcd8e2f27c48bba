//go:build unix

package main

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// A terminal is the one that this process is in the foreground of, if any. The command starts in the background of it, so that
// a pipeline's other commands keep it, and is given it when it asks: when it reads from the terminal, the kernel
// stops it.
type terminal struct {
	fd   int // -1: none
	ours int // our process group
}

func findTerminal() *terminal {
	t := &terminal{fd: -1, ours: syscall.Getpgrp()}
	for fd := range 3 {
		if t.foreground(fd) == t.ours {
			t.fd = fd
			break
		}
	}
	return t
}

func (t *terminal) foreground(fd int) int {
	pgrp, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return pgrp
}

// stopped is told that a signal has stopped the command.
func (t *terminal) stopped(j *job, sig syscall.Signal) {
	if t.fd < 0 {
		return
	}
	switch sig {
	case syscall.SIGTTIN, syscall.SIGTTOU:
		if t.foreground(t.fd) != t.ours {
			return // we are in the background too
		}
		t.give(j.pid)
		j.signal(syscall.SIGCONT)
	case syscall.SIGTSTP:
		if t.foreground(t.fd) == j.pid {
			j.log.Warn("not suspended: the lease would not wait")
			j.signal(syscall.SIGCONT)
		}
	}
}

// takeBack makes this process's group the terminal's foreground again, for what comes after it.
func (t *terminal) takeBack(from int) {
	if t.fd >= 0 && t.foreground(t.fd) == from {
		t.give(t.ours)
	}
}

func (t *terminal) give(pgrp int) {
	// From the background this is an attempt to write to the terminal, which stops who has not ignored that.
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgrp)
}
