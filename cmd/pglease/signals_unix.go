//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// relayed are the signals that are passed on: all that somebody sends on purpose and that can be caught. SIGTSTP is among them to
// be dealt with; see job.forward.
var relayed = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT,
	syscall.SIGWINCH, syscall.SIGALRM, syscall.SIGTSTP,
}

// outliveReader: a reader of standard error that has gone must not end this process, and with it the command. With a handler, the
// write fails and that is all. Not SIG_IGN, which the command would inherit.
func outliveReader() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// pause does what Ctrl-Z would have done to a process that only waits.
func pause(sig os.Signal) {
	if sig == syscall.SIGTSTP {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}
