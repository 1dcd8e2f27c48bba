//go:build !unix

package pgserver

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// account is the user that runs the servers: here always that of this process.
type account struct{}

func unprivileged() (account, error) { return account{}, nil }

func (account) adopt(*exec.Cmd) {}

func (account) own(string) error { return nil }

func (account) canReach(string) error { return nil }

// tell sends the postmaster a signal through pg_ctl: Windows has none, and PostgreSQL listens on a pipe for them.
func tell(pgctl string, p *os.Process, sig syscall.Signal) error {
	name := map[syscall.Signal]string{syscall.SIGINT: "INT", syscall.SIGQUIT: "QUIT"}[sig]
	if out, err := exec.Command(pgctl, "kill", name, strconv.Itoa(p.Pid)).CombinedOutput(); err != nil {
		return fmt.Errorf("pg_ctl kill %s: %w: %s", name, err, out)
	}
	return nil
}

type freeze struct{}

func freezeFamily(int) (*freeze, error) {
	return nil, fmt.Errorf("%w: this system can't stop a process and continue it", ErrNotHere)
}

func (*freeze) thaw() error { return nil }

// killFamily kills the postmaster; its children see that it is gone and end.
func killFamily(p *os.Process) error { return p.Kill() }
