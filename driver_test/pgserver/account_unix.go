//go:build unix

package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user that runs the servers. PostgreSQL and PgBouncer refuse to run as root.
type account struct {
	uid, gid int
	other    bool // not the user of this process
}

func unprivileged() (account, error) {
	if os.Geteuid() != 0 {
		return account{uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			return account{}, err
		}
		gid, err := strconv.Atoi(u.Gid)
		return account{uid: uid, gid: gid, other: true}, err
	}
	return account{}, fmt.Errorf("%w: root can't run a server, and there is no user postgres or nobody", ErrNotHere)
}

// adopt makes cmd run as the account, in a process group of its own: an interrupt from the terminal is for the program,
// which may still need its server to end in order.
func (a account) adopt(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if a.other {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
}

func (a account) own(path string) error {
	if !a.other {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}

// canReach returns an error if the account may not enter dir or a directory above it. It looks at the rights of
// everybody, which is all that an account without groups can count on.
func (a account) canReach(dir string) error {
	if !a.other {
		return nil
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("%s is closed to the user that runs the server", dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// tell sends the postmaster a signal. It may have ended by itself meanwhile, which is what the signal is for.
func tell(_ string, p *os.Process, sig syscall.Signal) error {
	if err := p.Signal(sig); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
