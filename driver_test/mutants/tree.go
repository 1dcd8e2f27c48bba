package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A tree is a copy of the working tree, without its history.
type tree struct {
	from, dir string
}

// copyTree copies what git knows or would add. The copy is always at the same kind of place, so that Go's cache helps.
func copyTree(ctx context.Context) (_ *tree, err error) {
	top, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return nil, fmt.Errorf("git: %w", err)
	}
	t := &tree{from: strings.TrimSpace(string(top))}
	if t.dir, err = os.MkdirTemp("", "mutants-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			t.remove()
		}
	}()
	// What a failed check leaves in its temporary directory goes with the tree; the server's account has to reach it.
	if err := errors.Join(os.Chmod(t.dir, 0o755), os.Mkdir(t.temp(), 0o755)); err != nil {
		return nil, err
	}
	list := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = t.from
	files, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	for _, file := range strings.Split(strings.Trim(string(files), "\x00"), "\x00") {
		if err := t.copy(file); err != nil && !errors.Is(err, os.ErrNotExist) { // deleted, but not yet for git
			return nil, err
		}
	}
	return t, nil
}

func (t *tree) copy(file string) error {
	from, to := filepath.Join(t.from, file), filepath.Join(t.dir, file)
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode())
}

func (t *tree) temp() string { return filepath.Join(t.dir, ".tmp") }

func (t *tree) remove() { _ = os.RemoveAll(t.dir) }

// apply changes the copy. One line of context has to agree at each side of a change; where it stands may have moved.
func (t *tree) apply(ctx context.Context, m *mutant) error {
	cmd := exec.CommandContext(ctx, "git", "apply", "-C1", "--recount", "-")
	cmd.Dir = t.dir
	// Below a repository git would take the patch for that one's, and silently skip it.
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(t.dir), "GIT_DIR="+filepath.Join(t.dir, "none"))
	cmd.Stdin = strings.NewReader(m.patch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("git apply: %w: %s", err, out), t.restore(m))
	}
	for _, file := range m.files {
		was, err1 := os.ReadFile(filepath.Join(t.from, file))
		is, err2 := os.ReadFile(filepath.Join(t.dir, file))
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if bytes.Equal(was, is) {
			return fmt.Errorf("%s is as it was", file)
		}
	}
	return nil
}

// restore takes a mutant back.
func (t *tree) restore(m *mutant) error {
	var errs []error
	for _, file := range m.files {
		errs = append(errs, t.copy(file))
	}
	return errors.Join(errs...)
}

// perform runs a check, and returns what it printed.
func (t *tree) perform(ctx context.Context, c check) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, checkLimit, errors.New("it hangs"))
	defer cancel()
	cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
	cmd.Dir = filepath.Join(t.dir, c.folder)
	cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -buildvcs=false"), "TMPDIR="+t.temp())
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it can end its server
	cmd.WaitDelay = 20 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return string(out), err
}
