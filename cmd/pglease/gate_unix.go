//go:build unix

package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// gateName is the name under which this program waits, as a process, to become the command.
const gateName = "pglease-gate"

// A gate holds the command back until its guardian knows of it: the process is started as this program, in the group and with the
// files and the environment of the command, and executes the command's program when it is let through. If this process dies
// before that, the pipe ends, and the program is never executed (W5).
type gate struct {
	open   *os.File // write a byte to let it through
	report *os.File // what becomes of it: see beGate
	theirs [2]*os.File
}

func newGate() (*gate, error) {
	wait, open, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	report, tell, err := os.Pipe()
	if err != nil {
		_, _ = wait.Close(), open.Close()
		return nil, err
	}
	return &gate{open: open, report: report, theirs: [2]*os.File{wait, tell}}, nil
}

// start starts the process that waits. Its ends of the pipes keep the numbers that they have here: a number chosen for them might
// be that of a file that the command is to inherit, as from a shell's "3>file".
func (g *gate) start(path string, argv []string, attributes *os.ProcAttr, f func(syscall.WaitStatus)) (pid int, err error) {
	exe, err := ownExecutable()
	if err != nil {
		return 0, err
	}
	words := []string{gateName}
	for _, file := range g.theirs {
		fd := file.Fd()
		if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil { // nothing else is started meanwhile that could inherit it
			return 0, err
		}
		words = append(words, strconv.Itoa(int(fd)))
	}
	pid, err = children.start(exe, append(append(words, path), argv...), attributes, f)
	g.theirs[0].Close()
	g.theirs[1].Close()
	return pid, err
}

var errGate = errors.New("the process that was to become the command has ended before")

// pass lets the process through, and returns when it has executed the command's program, or could not.
func (g *gate) pass(path string) error {
	if _, err := g.open.Write([]byte{gateOpen}); err != nil {
		return errGate
	}
	said, err := io.ReadAll(g.report)
	switch {
	case err != nil:
		return err
	case len(said) == 0:
		return errGate
	case len(said) == 1:
		return nil
	}
	errno, _ := strconv.Atoi(string(said[1:]))
	return &fs.PathError{Op: "exec", Path: path, Err: syscall.Errno(errno)}
}

// close ends the process, if it has not been let through.
func (g *gate) close() {
	for _, file := range []*os.File{g.open, g.report, g.theirs[0], g.theirs[1]} {
		_ = file.Close()
	}
}

const gateOpen = '!'

// The parent-death signal belongs to the thread that was forked, and only that thread takes it through exec.
func init() {
	if os.Args[0] == gateName {
		runtime.LockOSThread()
	}
}

// beGate is the main function of the process that waits. It reports a byte when it is about to execute the program, and the error's
// number if it cannot; the pipe ends by the exec itself. So an exit code of the command is never taken for one of its start.
func beGate() int {
	if len(os.Args) < 5 {
		return codeUsage
	}
	var files [2]*os.File
	for i := range files {
		fd, err := strconv.Atoi(os.Args[1+i])
		if err != nil {
			return codeUsage
		}
		syscall.CloseOnExec(fd)
		files[i] = os.NewFile(uintptr(fd), "gate")
	}
	said := make([]byte, 1)
	if _, err := files[0].Read(said); err != nil || said[0] != gateOpen {
		return codeSystem
	}
	if _, err := files[1].Write(said); err != nil {
		return codeSystem
	}
	err := syscall.Exec(os.Args[3], os.Args[4:], os.Environ())
	var errno syscall.Errno
	_ = errors.As(err, &errno)
	_, _ = files[1].WriteString(strconv.Itoa(int(errno)))
	return codeCannot
}
