package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// patience is how long the demo waits for something that should happen sooner.
const patience = ttl + 10*time.Second

// A worker is a process of this program.
type worker struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	gone  chan struct{} // closed when it has ended
	ends  bool          // it is meant to
}

// An event is a line that a worker printed, or, of kind "exit", its end.
type event struct {
	worker     *worker
	kind, text string
}

// launch starts a worker. Its lines arrive in d.events.
func (d *director) launch(name string, more ...string) (*worker, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{name: name, cmd: exec.Command(exe), gone: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), append(more, workerVariable+"="+name, dsnVariable+"="+d.dsn)...)
	apart(w.cmd)
	stdin, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	w.stdin = stdin
	lines, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	w.cmd.Stdout, w.cmd.Stderr = output, output
	err = w.cmd.Start()
	output.Close()
	if err != nil {
		lines.Close()
		return nil, err
	}
	go func() {
		defer lines.Close()
		for s := bufio.NewScanner(lines); s.Scan(); {
			kind, text, _ := strings.Cut(s.Text(), " ")
			d.events <- event{w, kind, text}
		}
		err := w.cmd.Wait()
		close(w.gone)
		d.events <- event{w, "exit", fmt.Sprint("ended: ", err)}
	}()
	d.workers[name] = w
	return w, nil
}

// await prints what the workers say until one says something that f accepts.
func (d *director) await(ctx context.Context, what string, f func(event) bool) (event, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("for %v nothing was seen of this: %s", patience, what))
	defer cancel()
	for {
		select {
		case e := <-d.events:
			if err := d.show(e); err != nil {
				return e, err
			}
			if f(e) {
				return e, nil
			}
		case <-ctx.Done():
			return event{}, context.Cause(ctx)
		}
	}
}

func (d *director) show(e event) error {
	switch e.kind {
	case "exit":
		if !e.worker.ends {
			return fmt.Errorf("%s %s", e.worker.name, e.text)
		}
		return nil
	case "error":
		return fmt.Errorf("%s: %s", e.worker.name, e.text)
	case "run":
		d.runs[e.worker.name]++
	case "skip":
		d.skips[e.worker.name]++
	case "ready", "half", "done", "finish", "refused", "server", "log":
	default: // not from our own code: a panic, for example
		e.text = e.kind + " " + e.text
	}
	d.say(e.worker.name, "%s", e.text)
	return nil
}

// of accepts an event of one of these kinds, of any worker but those excluded.
func of(kind string, except ...*worker) func(event) bool {
	return func(e event) bool {
		for _, w := range except {
			if e.worker == w {
				return false
			}
		}
		return e.kind == kind
	}
}

// endWorkers asks every worker to end, and ends those that do not.
func (d *director) endWorkers() error {
	var errs []error
	for _, w := range d.workers {
		w.ends = true
		_ = w.stdin.Close()
	}
	deadline := time.After(patience)
	for _, w := range d.workers {
		for running := true; running; {
			select {
			case <-w.gone:
				running = false
			case e := <-d.events:
				errs = append(errs, d.show(e))
			case <-deadline:
				errs = append(errs, fmt.Errorf("%s did not end and was killed", w.name), w.cmd.Process.Kill())
				deadline = nil
			}
		}
	}
	clear(d.workers)
	return errors.Join(errs...)
}
