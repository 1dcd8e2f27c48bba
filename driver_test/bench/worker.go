//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/wire"
	"github.com/pglease/pglease-go/pglease"
)

// A worker is a process of its own that acquires the lease when it is told to, and tells when what happened. All processes run
// on one machine, so that their wall clocks are one.

const leaseName = "bench"

// workerEnv makes this program a worker.
const workerEnv = "PGLEASE_BENCH_WORKER"

// setup is what a worker is started with.
type setup struct {
	Driver string
	DSN    string
	TTL    time.Duration
	Delay  *time.Duration // WithTakeoverDelay
	Table  bool           // the table backend, not hybrid
}

// news is what a worker tells, a line each.
type news struct {
	What string // "ready", "held", "releasing", "released", "lost", "count", "error"
	At   time.Time
	Err  string `json:",omitempty"`
	N    int    `json:",omitempty"` // of "count": the statements that were sent so far
}

// work is the main function of a worker: commands come by standard input, news go by standard output.
func work() error {
	var s setup
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &s); err != nil {
		return err
	}
	sent := &wire.Counter{}
	db, err := open(s.Driver, s.DSN, sent)
	if err != nil {
		return err
	}
	opts := []pglease.Option{pglease.WithTTL(s.TTL)}
	if !s.Table {
		opts = append(opts, pglease.WithHybrid())
	}
	if s.Delay != nil {
		opts = append(opts, pglease.WithTakeoverDelay(*s.Delay))
	}
	c, err := pglease.New(db, opts...)
	if err != nil {
		return err
	}
	ctx := context.Background()
	say := func(n news) {
		line, _ := json.Marshal(n)
		fmt.Println(string(line))
	}
	tell := func(what string, at time.Time, err error) {
		n := news{What: what, At: at}
		if err != nil {
			n.Err = err.Error()
		}
		say(n)
	}
	tell("ready", time.Now(), nil)
	var l *pglease.Lease
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
		switch commands.Text() {
		case "acquire":
			if l, err = c.Acquire(ctx, leaseName); err != nil {
				tell("error", time.Now(), err)
				continue
			}
			tell("held", time.Now(), nil)
			go func() {
				<-l.Context().Done()
				if err := context.Cause(l.Context()); !errors.Is(err, pglease.ErrReleased) {
					tell("lost", time.Now(), err)
				}
			}()
		case "release":
			begun := time.Now()
			tell("releasing", begun, nil)
			tell("released", time.Now(), l.Release(ctx))
		case "wait": // and be asked for the count meanwhile
			go func() {
				if _, err := c.Acquire(ctx, leaseName); err != nil {
					tell("error", time.Now(), err)
				}
			}()
		case "count":
			statements, _ := sent.Count()
			say(news{What: "count", At: time.Now(), N: statements})
		case "err": // the first look of a process that was stopped
			tell("err", time.Now(), l.Err())
		}
	}
	return c.Close(ctx)
}

// A process is a worker seen from outside.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	news chan news
}

func start(s setup) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	env, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self), news: make(chan news, 16)}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+string(env))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.news)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var n news
			if json.Unmarshal(lines.Bytes(), &n) == nil {
				p.news <- n
			}
		}
	}()
	if _, err := p.wait("ready"); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, nil
}

func (p *process) command(c string) error {
	_, err := fmt.Fprintln(p.in, c)
	return err
}

// wait waits for a certain piece of news, and skips others.
func (p *process) wait(what string) (news, error) {
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	var seen []string
	for {
		select {
		case n, ok := <-p.news:
			switch {
			case !ok:
				return n, fmt.Errorf("the worker ended before %q (after %s)", what, strings.Join(seen, ", "))
			case n.What == what:
				return n, nil
			case n.What == "error":
				return n, fmt.Errorf("waiting for %q: %s", what, n.Err)
			}
			seen = append(seen, n.What)
		case <-timeout.C:
			return news{}, fmt.Errorf("no %q within a minute (but %s)", what, strings.Join(seen, ", "))
		}
	}
}

// end has the process close its client and exit.
func (p *process) end() error {
	_ = p.in.Close()
	for range p.news {
	}
	return p.cmd.Wait()
}

// kill ends the process as a crash would.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = p.cmd.Wait()
	return nil
}
