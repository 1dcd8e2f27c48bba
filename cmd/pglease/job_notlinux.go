//go:build unix && !linux

package main

import "syscall"

// dieWithParent: only Linux has a parent-death signal. Elsewhere the guardian alone ends the command.
func dieWithParent(*syscall.SysProcAttr) {}

// becomeSubreaper: elsewhere init reaps orphans.
func becomeSubreaper() {}

const selfExe = ""
