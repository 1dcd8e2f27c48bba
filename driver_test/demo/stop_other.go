//go:build !unix

package main

import (
	"errors"
	"os"
	"os/exec"
)

const canStop = false

func apart(*exec.Cmd) {}

func stopProcess(*os.Process) error     { return errors.ErrUnsupported }
func continueProcess(*os.Process) error { return errors.ErrUnsupported }
