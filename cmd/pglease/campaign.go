package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// The states of pglease run: waiting for the lease; running the command under it; ending what is left of the command; released.
// A campaign is one way through them.
type campaign struct {
	*app
	*runOptions
	client  *pglease.Client
	signals *relay
	renewed chan struct{} // holds a token when a renewal may have moved the trust deadline
	wait    waitLine
}

// run is pglease run.
func (a *app) run(ctx context.Context, o *runOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &campaign{app: a, runOptions: o, renewed: make(chan struct{}, 1), signals: relaySignals(cancel)}
	defer c.signals.stop()
	client, err := a.client(append(o.clientOptions(), pglease.WithObserver(c),
		pglease.WithMetadata(map[string]string{"command": filepath.Base(o.command[0])}))...)
	if err != nil {
		return err
	}
	c.client = client
	c.wait = waitLine{console: a.console, name: o.name}
	becomeSubreaper()
	code, err := c.repeat(ctx)
	end, stop := context.WithTimeout(context.Background(), closing)
	defer stop()
	if closeErr := client.Close(end); closeErr != nil {
		a.logger().Warn("closing", "error", closeErr)
	}
	_ = a.database.db.Close()
	a.row.end(end)
	if err == nil && code != codeOK {
		err = &exitError{code: code} // the command's own: it has said why
	}
	return failure(err)
}

// repeat runs one campaign, or with --loop one after another. The pause between two of them gives others a chance, and keeps a
// command that fails at once from running in circles.
func (c *campaign) repeat(ctx context.Context) (code int, err error) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		begun := time.Now()
		code, err = c.once(ctx)
		var final *exitError
		if !c.loop || c.signals.asked() || errors.As(err, &final) || permanent(err) {
			return code, err
		}
		if err != nil {
			c.logger().Warn("starting over", "error", failure(err))
		} else {
			c.logger().Info("the command has ended, starting over", "exit_code", code)
		}
		if time.Since(begun) > maxPause {
			pause = minPause
		}
		select {
		case <-ctx.Done():
			return code, c.signals.asExit(err)
		case <-time.After(pause):
		}
	}
}

const (
	minPause = time.Second
	maxPause = 30 * time.Second
)

// permanent reports whether starting over is of no use.
func permanent(err error) bool {
	var unsupported *pglease.UnsupportedError
	return errors.Is(err, pglease.ErrInvalidName) || errors.Is(err, pglease.ErrNoSchema) || errors.As(err, &unsupported)
}

// once waits for the lease, runs the command, and releases.
func (c *campaign) once(ctx context.Context) (code int, err error) {
	lease, err := c.acquire(ctx)
	if err != nil {
		if c.signals.asked() {
			return 0, c.signals.asExit(nil)
		}
		if c.skip && errors.Is(err, pglease.ErrHeld) {
			c.logger().Info("skipped", "reason", err)
			return codeOK, nil
		}
		return 0, err
	}
	c.logger().Info("running", "name", c.name, "owner", lease.Owner(), "token", lease.Token(), "command", c.command[0])
	code, err = c.runUnder(lease)
	end, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	releaseErr := lease.Release(end)
	switch {
	case err != nil:
	case errors.Is(releaseErr, pglease.ErrLost):
		err = fmt.Errorf("%w: the command has ended with exit code %d, and may not have been alone", releaseErr, code)
	case releaseErr != nil:
		c.logger().Warn("the lease was not released, and will be free when its TTL ends", "error", releaseErr)
	}
	return code, err
}

func (c *campaign) acquire(ctx context.Context) (*pglease.Lease, error) {
	if !c.runOptions.wait.set && !c.loop {
		return c.client.TryAcquire(ctx, c.name)
	}
	if limit := c.runOptions.wait.limit; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	defer c.wait.show()()
	return c.client.Acquire(ctx, c.name)
}

// runUnder runs the command while the lease is held, and returns when nobody of its group is left.
func (c *campaign) runUnder(lease *pglease.Lease) (code int, err error) {
	env := childEnv(c.keepEnv,
		"PGLEASE_NAME="+lease.Name(),
		"PGLEASE_OWNER="+lease.Owner(),
		"PGLEASE_TOKEN="+strconv.FormatInt(lease.Token(), 10),
		"PGLEASE_DEADLINE="+lease.Deadline().Format(time.RFC3339Nano),
	)
	killAt := func() time.Time { return lease.Deadline().Add(c.grace) }
	j, err := c.signals.start(func() (*job, error) {
		if err := lease.Err(); err != nil {
			return nil, err
		}
		j, err := startJob(c.path, c.command, env, killAt(), lease.Err, c.logger())
		if lost := lease.Err(); err != nil && lost != nil {
			return nil, fmt.Errorf("%w; the command was not started", lost)
		}
		return j, err
	})
	if err != nil {
		return 0, err
	}
	defer j.close()
	defer c.signals.ended()
	for {
		j.killAfter(killAt())
		select {
		case <-c.renewed:
			continue
		case <-lease.Done():
			// Not a word before the end: who reads standard error may be slow, and nothing may wait for that.
			stopped := c.stopped(lease)
			outcome := c.end(j, min(c.grace, until(killAt())))
			if stopped && outcome == wasEnded && j.endedByGuardian() {
				return 0, fmt.Errorf("%w; %s", lease.Err(), endedInTime)
			}
			return 0, fmt.Errorf("%w; the command %s", lease.Err(), outcome)
		case <-j.done:
		}
		break
	}
	code = j.code
	if err := lease.Err(); err != nil && c.stopped(lease) && j.endedByGuardian() { // its end was heard of before the loss
		c.end(j, 0)
		return 0, fmt.Errorf("%w; %s", err, endedInTime)
	}
	if !j.gone() {
		outcome := c.end(j, c.grace) // a loss meanwhile hurries nothing: the grace has begun before it
		c.logger().Warn("the command has left processes in its group: what was left " + outcome)
	}
	return code, nil
}

// end has the group end: TERM, then KILL after the grace. It returns when nobody is left, or if somebody outlives a KILL, as a
// process does that the kernel cannot let go, or that belongs to another user; and says which.
func (c *campaign) end(j *job, grace time.Duration) (outcome string) {
	if grace > 0 {
		j.terminate()
	}
	kill := time.After(grace)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	var giveUp <-chan time.Time
	for !j.gone() {
		select {
		case <-look.C:
		case <-kill:
			j.kill()
			kill, giveUp = nil, time.After(killLimit)
		case <-giveUp:
			return "does not die, and runs on without a lease"
		}
	}
	return wasEnded
}

const wasEnded = "was ended"

const endedInTime = "pglease was stopped for longer than its lease lasts; the command was ended in time"

// stopped reports whether this process hears of the lease's end only when the command should have ended long ago: it did not run
// meanwhile, though the machine did.
func (c *campaign) stopped(lease *pglease.Lease) bool {
	return time.Until(lease.Deadline()) < -max(c.grace, 100*time.Millisecond)
}

const killLimit = 10 * time.Second

// until is the time to an instant, by the monotonic and the wall clock, whichever is shorter: one of them stands still while
// the machine is suspended.
func until(t time.Time) time.Duration {
	return min(time.Until(t), t.Round(0).Sub(time.Now().Round(0)))
}

// Observe is told what happens to the lease.
func (c *campaign) Observe(_ context.Context, e pglease.Event) {
	switch e.Kind {
	case pglease.EventRenew:
		if e.Err == nil {
			go c.row.end(context.Background()) // nothing waits for who reads standard error
		}
		select {
		case c.renewed <- struct{}{}:
		default:
		}
	case pglease.EventAcquire:
		c.wait.answered(e.Err)
	}
}
