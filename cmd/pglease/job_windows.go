package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// A job is a command in a job object, which ends all its processes when its last handle is closed: when this process ends, in
// whatever way (W5).
type job struct {
	pid    uint32
	object windows.Handle
	done   chan struct{} // closed when the command has ended
	code   int           // valid then
	log    *slog.Logger
}

// startJob starts a command, suspended at first, so that it has no child before it is in its job object.
func startJob(path string, argv, env []string, _ time.Time, _ func() error, log *slog.Logger) (*job, error) {
	object, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, exit(codeSystem, "creating a job object: %v", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(object, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		_ = windows.CloseHandle(object)
		return nil, exit(codeSystem, "setting up a job object: %v", err)
	}
	cmd := &exec.Cmd{
		Path: path, Args: argv, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_SUSPENDED},
	}
	if err := cmd.Start(); err != nil {
		_ = windows.CloseHandle(object)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, exit(codeNotFound, "%v", err)
		}
		return nil, exit(codeCannot, "%v", err)
	}
	j := &job{pid: uint32(cmd.Process.Pid), object: object, done: make(chan struct{}), log: log}
	if err := j.release(); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = windows.CloseHandle(object)
		return nil, exit(codeSystem, "putting the command into a job object: %v", err)
	}
	go func() {
		_ = cmd.Wait()
		j.code = cmd.ProcessState.ExitCode()
		close(j.done)
	}()
	return j, nil
}

// release puts the command into the job object and lets it run.
func (j *job) release() error {
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, j.pid)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(process)
	if err := windows.AssignProcessToJobObject(j.object, process); err != nil {
		return err
	}
	threads, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(threads)
	entry := windows.ThreadEntry32{}
	entry.Size = uint32(unsafe.Sizeof(entry))
	for err = windows.Thread32First(threads, &entry); err == nil; err = windows.Thread32Next(threads, &entry) {
		if entry.OwnerProcessID != j.pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return err
		}
		defer windows.CloseHandle(thread)
		_, err = windows.ResumeThread(thread)
		return err
	}
	return err
}

// forward passes on what this process was told: all that a process group can be sent here is Ctrl-Break.
func (j *job) forward(os.Signal) { j.terminate() }

func (j *job) terminate() { _ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, j.pid) }

func (j *job) kill() { _ = windows.TerminateJobObject(j.object, codeSignal+9) }

// gone reports whether no process of the job object is left.
func (j *job) gone() bool {
	select {
	case <-j.done:
	default:
		return false
	}
	var accounting struct { // JOBOBJECT_BASIC_ACCOUNTING_INFORMATION
		userTime, kernelTime, periodUserTime, periodKernelTime int64
		faults, total, active, terminated                      uint32
	}
	const basicAccountingInformation = 1
	err := windows.QueryInformationJobObject(j.object, basicAccountingInformation, uintptr(unsafe.Pointer(&accounting)),
		uint32(unsafe.Sizeof(accounting)), nil)
	return err != nil || accounting.active == 0
}

// killAfter: a process that is suspended is nothing that happens here by itself.
func (j *job) killAfter(time.Time) {}

func (j *job) endedByGuardian() bool { return false }

func (j *job) close() { _ = windows.CloseHandle(j.object) }

// becomeSubreaper: nobody has to reap here.
func becomeSubreaper() {}

// relayed are the signals that Go makes of console events: Ctrl-C and Ctrl-Break, and the window's closing, a logoff or a shutdown.
var relayed = []os.Signal{os.Interrupt, syscall.SIGTERM}

func pause(os.Signal) {}

func outliveReader() {}

// The job object is the guardian here, and a suspended process the gate.
const guardianName, gateName = "\x00", "\x01"

func beGuardian() int { return codeUsage }

func beGate() int { return codeUsage }
