//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/history"
	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

// A fault causes something and writes down what and when. draw is a random number from 0 up to 1 that belongs to it.
type fault func(d *director, ctx context.Context, draw float64) error

// between returns the duration that draw stands for.
func between(least, most time.Duration, draw float64) time.Duration {
	return least + time.Duration(draw*float64(most-least))
}

// during has f cause something, waits, and has it undone.
func (d *director) during(kind history.Kind, p *process, length time.Duration, cause func() error, undo func() error) error {
	f := history.Fault{Kind: kind, At: now(), Client: p.ID, Note: fmt.Sprintf("%s %s %s, %v", p.Who.Driver, p.Who.Backend, p.Who.Route, length.Round(time.Millisecond))}
	if err := cause(); err != nil {
		return err
	}
	time.Sleep(length)
	err := undo()
	f.Until = now()
	d.wrote(f)
	return err
}

// victim locks a slot that some condition allows, and returns its process. With the lock comes the right to cause a fault.
func (d *director) victim(draw float64, allowed func(*slot) bool) (p *process, unlock func()) {
	from := int(draw * float64(len(d.slots)))
	for i := range d.slots {
		s := d.slots[(from+i)%len(d.slots)]
		if !allowed(s) || !s.busy.TryLock() {
			continue
		}
		p := s.process()
		select {
		case <-p.gone: // it was ended for good
			s.busy.Unlock()
			continue
		default:
		}
		return p, s.busy.Unlock
	}
	return nil, nil
}

func anyone(*slot) bool          { return true }
func behindProxy(s *slot) bool   { return s.proxy != nil }
func noUndo() error              { return nil }
func fraction(x float64) float64 { return x*7919 - float64(int(x*7919)) } // another draw out of a draw

func kill(d *director, _ context.Context, draw float64) error {
	p, unlock := d.victim(draw, anyone)
	if p == nil {
		return nil
	}
	defer unlock()
	return errors.Join(d.during(history.Kill, p, 0, p.kill, noUndo), d.replace(p.slot))
}

func stop(kind history.Kind, least, most float64) fault {
	return func(d *director, _ context.Context, draw float64) error {
		p, unlock := d.victim(draw, anyone)
		if p == nil {
			return nil
		}
		defer unlock()
		length := time.Duration((least + fraction(draw)*(most-least)) * float64(p.Who.TTL))
		return d.during(kind, p, length,
			func() error { return p.signal(syscall.SIGSTOP) }, func() error { return p.signal(syscall.SIGCONT) })
	}
}

// network causes trouble in the proxy of a client.
func network(kind history.Kind, most time.Duration, cause func(*process, float64) error) fault {
	return func(d *director, _ context.Context, draw float64) error {
		p, unlock := d.victim(draw, behindProxy)
		if p == nil {
			return nil
		}
		defer unlock()
		length := between(most/10, most, fraction(draw))
		return d.during(kind, p, length, func() error { return cause(p, fraction(draw)) }, func() error { p.slot.proxy.Heal(); return nil })
	}
}

func drainPool(d *director, _ context.Context, draw float64) error {
	p, unlock := d.victim(draw, anyone)
	if p == nil {
		return nil
	}
	defer unlock()
	length := between(200*time.Millisecond, 3*time.Second, fraction(draw))
	return d.during(history.Drain, p, length, func() error {
		_, err := fmt.Fprintf(p.in, "drain %d\n", length.Milliseconds())
		return err
	}, noUndo)
}

// terminate ends a session; every other time one that holds an advisory lock, if there is any. Its client may be paused or cut
// off meanwhile. A server that is down has no sessions.
func terminate(d *director, ctx context.Context, draw float64) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	f := history.Fault{Kind: history.Terminate, At: now()}
	var app string
	err := d.admin.QueryRowContext(ctx, `
		SELECT v.application_name
		FROM (
			SELECT a.pid, a.application_name
			FROM pg_stat_activity AS a
			WHERE a.application_name LIKE 'torture-%' AND a.application_name <> 'torture-director'
			ORDER BY $1 = EXISTS (SELECT FROM pg_locks AS l WHERE l.pid = a.pid AND l.locktype = 'advisory' AND l.granted) DESC, random()
			LIMIT 1
		) AS v
		WHERE pg_terminate_backend(v.pid)`, draw < 0.5).Scan(&app)
	if err != nil {
		return nil
	}
	if _, err := fmt.Sscanf(strings.TrimPrefix(app, appName), "%d", &f.Client); err != nil {
		return err
	}
	f.Until = now()
	d.wrote(f)
	return nil
}

// terminateStopped ends the sessions of a hybrid client that is stopped, and wakes it while it may still trust: the one case in
// which an early takeover meets a holder that could not hear of its session's end (3.2).
func terminateStopped(d *director, ctx context.Context, draw float64) error {
	p, unlock := d.victim(draw, func(s *slot) bool { return s.Who.Backend == "hybrid" })
	if p == nil {
		return nil
	}
	defer unlock()
	length := time.Duration((0.4 + 0.5*fraction(draw)) * float64(p.Who.TTL))
	return d.during(history.Stop, p, length, func() error {
		if err := p.signal(syscall.SIGSTOP); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, length/2)
		defer cancel()
		f := history.Fault{Kind: history.Terminate, At: now(), Client: p.ID, Note: "which is stopped"}
		_, err := d.admin.ExecContext(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", fmt.Sprint(appName, p.ID))
		if f.Until = now(); err == nil {
			d.wrote(f)
		}
		return nil // the server may be down
	}, func() error { return p.signal(syscall.SIGCONT) })
}

// operator does something to a row in SQL, as people do.
func operator(kind history.Kind, action history.Action, statement string) fault {
	return func(d *director, ctx context.Context, draw float64) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		f := history.Fault{Kind: kind, At: now(), Name: names[int(draw*float64(len(names)))], Note: "row of " + names[int(draw*float64(len(names)))]}
		var o *history.Op
		if action != "" {
			o = d.r.call(0, action, f.Name, 0)
		}
		_, err := d.admin.ExecContext(ctx, statement, f.Name)
		if o != nil {
			d.r.end(o, ofTerm(err), err)
		}
		f.Until = now()
		d.wrote(f) // even if it failed: it may have taken effect all the same
		return nil
	}
}

func forceOut(d *director, ctx context.Context, draw float64) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	f := history.Fault{Kind: history.ForceOut, At: now(), Name: names[int(draw*float64(len(names)))], Note: "row of " + names[int(draw*float64(len(names)))]}
	o := d.r.call(0, history.Force, f.Name, 0)
	_, err := d.client.ForceRelease(ctx, f.Name)
	outcome := history.Unknown
	if err == nil {
		outcome = history.OK
	}
	d.r.end(o, outcome, err)
	if !errors.Is(err, pglease.ErrNotFound) {
		f.Until = now()
		d.wrote(f)
	}
	return nil
}

// crash ends the server as a power failure would, and starts it again.
func crash(d *director, ctx context.Context, draw float64) error {
	d.serverBusy.Lock()
	defer d.serverBusy.Unlock()
	f := history.Fault{Kind: history.Crash, At: now()}
	if err := d.server.Crash(); err != nil {
		return err
	}
	time.Sleep(between(0, time.Second, draw))
	err := d.server.Restart(ctx)
	f.Until = now()
	d.wrote(f)
	return err
}

// freeze has every process of the server stand still for a while.
func freeze(d *director, _ context.Context, draw float64) error {
	d.serverBusy.Lock()
	defer d.serverBusy.Unlock()
	f := history.Fault{Kind: history.Freeze, At: now()}
	if err := d.server.Freeze(); err != nil {
		return err
	}
	length := between(300*time.Millisecond, 4*time.Second, draw)
	f.Note = fmt.Sprint(length.Round(time.Millisecond))
	time.Sleep(length)
	err := d.server.Thaw()
	f.Until = now()
	d.wrote(f)
	return err
}

// promote crashes the primary and makes a standby the next one. An asynchronous standby is frozen for a moment before, so
// that commits are really lost.
func promote(kind history.Kind, opts ...pgserver.Option) fault {
	return func(d *director, ctx context.Context, draw float64) error {
		d.serverBusy.Lock()
		defer d.serverBusy.Unlock()
		next, err := d.server.Standby(ctx, append(opts, pgserver.WithLog(discard{}))...)
		if err != nil {
			return err
		}
		time.Sleep(between(time.Second, 2*time.Second, draw))
		f := history.Fault{Kind: kind, At: now()}
		if kind == history.PromoteAsync {
			if err := next.Freeze(); err != nil {
				return errors.Join(err, next.Stop())
			}
			time.Sleep(between(0, 500*time.Millisecond, fraction(draw)))
		}
		before := d.server
		if err := errors.Join(before.Crash(), next.Thaw(), next.Promote(ctx)); err != nil {
			return errors.Join(err, next.Stop())
		}
		d.server = next
		address, err := hostOf(next)
		if err == nil {
			d.gate.lead(address)
		}
		f.Until = now()
		d.wrote(f)
		return errors.Join(err, before.Stop())
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// jump sets the server's clock.
func jump(kind history.Kind, least, most time.Duration) fault {
	return func(d *director, _ context.Context, draw float64) error {
		d.serverBusy.Lock()
		defer d.serverBusy.Unlock()
		by := between(least, most, draw)
		f := history.Fault{Kind: kind, At: now(), Note: fmt.Sprint(by.Round(time.Millisecond))}
		err := d.clock.jump(by)
		f.Until = now()
		d.wrote(f)
		// Two small jumps within one TTL are a large one.
		if kind == history.Nudge {
			time.Sleep(longestTTL)
		}
		return err
	}
}

const longestTTL = 3 * time.Second
