package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/pglease/pglease-go/pglease"
)

const minTTL = time.Second

// runOptions are the flags of pglease run, and what follows from them.
type runOptions struct {
	name    string
	command []string
	path    string // of the command's program

	ttl, grace, minHold time.Duration
	wait                waitFlag
	skip, hybrid, loop  bool
	keepEnv             bool
	owner               string
}

// A waitFlag is --wait or --wait=D.
type waitFlag struct {
	set   bool
	limit time.Duration // 0: none
}

func (w *waitFlag) String() string { return "" }
func (w *waitFlag) Type() string   { return "duration" }

func (w *waitFlag) Set(s string) error {
	w.set, w.limit = true, 0
	if s == waitForever {
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return errors.New("a positive duration is needed, as in --wait=30s, or --wait alone")
	}
	w.limit = d
	return nil
}

const waitForever = "forever"

func (a *app) runCommand() *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command while holding the lease of NAME",
		Long: `Takes the lease of NAME, runs COMMAND, and releases the lease when it has ended. If somebody else holds the lease: exit
code 75; with --skip exit code 0; with --wait it waits.

COMMAND runs in a process group of its own, with this process's standard input, output and error themselves, and with
    PGLEASE_NAME, PGLEASE_OWNER   the lease, and who holds it
    PGLEASE_TOKEN                 higher than that of every term before under this name: for systems that can refuse a lower one
    PGLEASE_DEADLINE              until when the lease can be trusted, in UTC (RFC 3339), as it is when COMMAND starts; each
                                  renewal moves it on
in its environment, and without PGLEASE_DSN, DATABASE_URL, PGPASSWORD and PGSSLPASSWORD, unless --keep-env is given.

The signals HUP, INT, QUIT, TERM, USR1, USR2, CONT, WINCH and their like are passed on to the whole group. HUP, INT, QUIT and TERM
end the wait for the lease; after that COMMAND is not started.

If the lease is lost, the whole group gets TERM, and KILL when --grace is over: that is before another can have the lease, unless
somebody took it away by "pglease release --force". The lease is given up a grace before its TTL ends to make room for that. What
COMMAND has left running in its group when it ends is ended in the same way, before the lease is released. A process that has
left the group (setsid, or a job of "set -m") is not followed, and one of another user (sudo) cannot be ended: run pglease as
that user.

If pglease itself is killed by SIGKILL, COMMAND is too (on Linux, macOS and the BSDs a second process sees to it, which also ends
the group if pglease is stopped for longer than the lease lasts; on Windows it is a job object). On a terminal, COMMAND
gets it when it reads from it; Ctrl-Z does not stop COMMAND, since its lease would not wait. On Windows COMMAND gets Ctrl-Break
in place of TERM.

With --hybrid the next one starts at once after a release, and when the server has seen pglease die, after --grace and one second
instead of the TTL. It needs a direct connection to the primary, or a pooler in session mode. If pglease is stopped (SIGSTOP) and
its session is ended by something else at the same time, COMMAND may run beside the next one, until the TTL of its lease ends.

The exit code is COMMAND's own, or 128+n if signal n ended it, or one of those below.

` + codesHelp,
		Example: `  pglease run nightly-report --skip --min-hold 1m -- ./report.sh      # in the crontab of every machine
  pglease run migrate --wait=5m -- ./migrate up                       # in a deploy script
  pglease run scheduler --loop --hybrid -- ./scheduler                # always one, for ever`,
		Args: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			switch {
			case dash < 0:
				return errors.New("-- and a command are needed after NAME and the flags")
			case dash != 1:
				return fmt.Errorf("one NAME is needed before --, and there are %d words (a duration belongs to its flag: --wait=30s)", dash)
			case len(args) == dash:
				return errors.New("a command is needed after --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			a.logged = true
			o.name, o.command = args[0], args[1:]
			if !cmd.Flags().Changed("grace") {
				o.grace = min(10*time.Second, o.ttl/3)
			}
			if err := o.check(); err != nil {
				return err
			}
			return a.run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.ttl, "ttl", pglease.DefaultTTL, "how long the server keeps the lease if it is not renewed; at least 1s")
	f.Var(&o.wait, "wait", "wait until the lease is free, or for so long at the most: --wait=30s")
	f.Lookup("wait").NoOptDefVal = waitForever
	f.BoolVar(&o.skip, "skip", false, "if the lease is held: exit code 0, not 75")
	f.BoolVar(&o.hybrid, "hybrid", false, "hold the lease by a session's advisory lock too: the next one starts at once")
	f.DurationVar(&o.minHold, "min-hold", 0, "keep the name taken until so long after the start: for quick jobs and clocks that differ")
	f.DurationVar(&o.grace, "grace", 0, "time between TERM and KILL; at most half of --ttl; 0: KILL at once (default 10s, or a third of --ttl)")
	f.BoolVar(&o.loop, "loop", false, "start over when the command has ended or the lease was lost, until INT, QUIT or TERM comes")
	f.BoolVar(&o.keepEnv, "keep-env", false, "leave PGLEASE_DSN, DATABASE_URL, PGPASSWORD and PGSSLPASSWORD in the command's environment")
	f.StringVar(&o.owner, "owner", "", "who holds the lease, for people to read (default the host's name)")
	return cmd
}

// check finds what is wrong with the flags together, and the program, before anything is asked of the database.
func (o *runOptions) check() error {
	switch {
	case o.skip && o.wait.set:
		return usage("--skip and --wait: one of them is enough")
	case o.skip && o.loop:
		return usage("--skip and --loop: a loop always waits; leave --skip out")
	case o.loop && o.wait.limit > 0:
		return usage("--loop and --wait=%v: a loop waits for as long as it takes; leave --wait out", o.wait.limit)
	case o.ttl < minTTL:
		return usage("--ttl %v: at least %v is needed", o.ttl, minTTL)
	case o.grace < 0 || o.minHold < 0:
		return usage("--grace and --min-hold cannot be negative")
	case o.grace > o.ttl/2:
		return usage("--grace %v: TERM, grace and KILL must fit into the TTL: at most %v, or --ttl %v", o.grace, o.ttl/2, 2*o.grace)
	}
	path, err := exec.LookPath(o.command[0])
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return exit(codeNotFound, "%s: command not found", o.command[0])
	case err != nil:
		return exit(codeCannot, "%v", err)
	}
	o.path = path
	return nil
}

// margin is the lease's safety margin. The lease is lost so long before its TTL ends; then come TERM, the grace and KILL, and
// slack is left for the kill itself and for clocks that drift.
func (o *runOptions) margin() time.Duration { return o.grace + o.slack() }

func (o *runOptions) slack() time.Duration { return min(time.Second, o.ttl/10) }

// clientOptions are those of the library.
func (o *runOptions) clientOptions() []pglease.Option {
	opts := []pglease.Option{
		pglease.WithTTL(o.ttl),
		pglease.WithSafetyMargin(o.margin()),
		// The trust is short by the grace: three beats in it all the same, so that one may fail.
		pglease.WithHeartbeatInterval((o.ttl - o.margin()) / 3),
		pglease.WithMinHold(o.minHold),
	}
	if o.owner != "" {
		opts = append(opts, pglease.WithOwner(o.owner))
	}
	if o.hybrid {
		// Who takes over early must leave the time that it takes to end the command.
		opts = append(opts, pglease.WithHybrid(), pglease.WithTakeoverDelay(o.grace+time.Second))
	}
	return opts
}
