package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent has the kernel kill the process when this one dies (W5). The rest of its group is the guardian's business.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// becomeSubreaper makes this process the parent of the command's orphans, so that those of its group that have ended can be
// reaped, whatever PID 1 does.
func becomeSubreaper() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

const selfExe = "/proc/self/exe" // also after the file was replaced by a newer version
