//go:build unix

package main

import (
	"fmt"
	"syscall"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/faultproxy"
)

var rows = []row{
	{"clean hand-over to a waiter", "p50 <= 5 ms, p99 <= 15 ms", (*bench).handOver},
	{"kill -9 of the holder to the next one's work", "p99 <= 250 ms (pgx)", func(b *bench) ([]time.Duration, error) { return b.failOver(nil) }},
	{"the same, takeover delay 0", "p99 <= 50 ms", func(b *bench) ([]time.Duration, error) { return b.failOver(new(time.Duration)) }},
	{"pg_terminate_backend to the holder's context", "p99 <= 50 ms (pgx), <= 1.1 s (others)", (*bench).terminated},
	{"socket reset to the holder's context", "p99 <= 50 ms (pgx), <= 1.1 s (others)", (*bench).reset},
	{"server crash to the holder's context", "p99 <= 50 ms (pgx), <= 1.1 s (others)", (*bench).crashed},
	{"stopped holder (SIGSTOP), TTL 5 s, to the next one", "<= 6 s", (*bench).stopped},
	{"silent peer, TTL 5 s, to the holder's context", "<= 4.5 s", func(b *bench) ([]time.Duration, error) { return b.partition(true) }},
	{"silent peer, TTL 5 s, to the next holder", "<= 10 s", func(b *bench) ([]time.Duration, error) { return b.partition(false) }},
}

func (b *bench) setup() setup {
	return setup{Driver: b.driver, DSN: b.dsn, TTL: 30 * time.Second}
}

// pair starts two workers, of which the first holds the lease and the second waits for it.
func (b *bench) pair(holder, waiter setup) (a, w *process, err error) {
	if a, err = start(holder); err != nil {
		return nil, nil, err
	}
	if err = a.command("acquire"); err == nil {
		_, err = a.wait("held")
	}
	if err != nil {
		_ = a.kill()
		return nil, nil, err
	}
	if w, err = b.waiter(waiter); err != nil {
		_ = a.kill()
	}
	return a, w, err
}

// waiter starts a worker and returns when the server has it waiting for the advisory lock.
func (b *bench) waiter(s setup) (*process, error) {
	w, err := start(s)
	if err != nil {
		return nil, err
	}
	if err := w.command("acquire"); err != nil {
		return nil, err
	}
	return w, b.isWaiting()
}

func (b *bench) isWaiting() error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var waiting bool
		err := b.admin.QueryRowContext(b.ctx, "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)").Scan(&waiting)
		if err != nil || waiting {
			return err
		}
	}
	return fmt.Errorf("nobody waits for the lock")
}

func (b *bench) handOver() (times []time.Duration, err error) {
	a, w, err := b.pair(b.setup(), b.setup())
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = a.kill(), w.kill() }()
	for range *handovers {
		if err := a.command("release"); err != nil {
			return nil, err
		}
		from, err := a.wait("releasing")
		if err != nil {
			return nil, err
		}
		to, err := w.wait("held")
		if err != nil {
			return nil, err
		}
		times = append(times, to.At.Sub(from.At))
		if _, err := a.wait("released"); err != nil {
			return nil, err
		}
		if err := a.command("acquire"); err != nil {
			return nil, err
		}
		if err := b.isWaiting(); err != nil {
			return nil, err
		}
		a, w = w, a
	}
	return times, nil
}

func (b *bench) failOver(delay *time.Duration) (times []time.Duration, err error) {
	s := b.setup()
	s.Delay = delay
	a, w, err := b.pair(s, s)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = a.kill(), w.kill() }()
	for range *kills {
		killed := time.Now()
		if err := a.kill(); err != nil {
			return nil, err
		}
		to, err := w.wait("held")
		if err != nil {
			return nil, err
		}
		times = append(times, to.At.Sub(killed))
		a = w
		if w, err = b.waiter(s); err != nil {
			return nil, err
		}
	}
	return times, nil
}

// lose has a holder lose its session n times, and measures until its context ends.
func (b *bench) lose(n int, s setup, end func() error) (times []time.Duration, err error) {
	for range n {
		a, err := start(s)
		if err != nil {
			return nil, err
		}
		if err = a.command("acquire"); err == nil {
			_, err = a.wait("held")
		}
		begun := time.Now()
		if err == nil {
			err = end()
		}
		if err == nil {
			var lost news
			lost, err = a.wait("lost")
			times = append(times, lost.At.Sub(begun))
		}
		if killErr := a.kill(); err == nil {
			err = killErr
		}
		if err != nil {
			return nil, err
		}
	}
	return times, nil
}

func (b *bench) terminated() ([]time.Duration, error) {
	return b.lose(*losses, b.setup(), func() error {
		_, err := b.admin.ExecContext(b.ctx, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted")
		return err
	})
}

func (b *bench) crashed() (times []time.Duration, err error) {
	for range *crashes {
		one, err := b.lose(1, b.setup(), b.server.Crash)
		if err != nil {
			return nil, err
		}
		times = append(times, one...)
		if err := b.server.Restart(b.ctx); err != nil {
			return nil, err
		}
	}
	return times, nil
}

func (b *bench) reset() (times []time.Duration, err error) {
	for range *losses {
		p, err := faultproxy.Start(b.dsn)
		if err != nil {
			return nil, err
		}
		s := b.setup()
		s.DSN = p.DSN()
		one, err := b.lose(1, s, p.Reset)
		p.Stop()
		if err != nil {
			return nil, err
		}
		times = append(times, one...)
	}
	return times, nil
}

func (b *bench) stopped() (times []time.Duration, err error) {
	s := b.setup()
	s.TTL = 5 * time.Second
	for range *stops {
		a, w, err := b.pair(s, s)
		if err != nil {
			return nil, err
		}
		stopped := time.Now()
		if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return nil, err
		}
		to, err := w.wait("held")
		if err == nil {
			times = append(times, to.At.Sub(stopped))
			err = a.cmd.Process.Signal(syscall.SIGCONT)
		}
		if err == nil {
			err = a.command("err")
		}
		if err == nil {
			var first news
			if first, err = a.wait("err"); err == nil && first.Err == "" {
				err = fmt.Errorf("a holder that was stopped beyond its TTL did not see its loss at its first look")
			}
		}
		_, _ = a.kill(), w.kill()
		if err != nil {
			return nil, err
		}
	}
	return times, nil
}

// partition has the holder's connection go silent, as if the network had been cut, and measures until its context ends or the
// next one holds.
func (b *bench) partition(toLoss bool) (times []time.Duration, err error) {
	for range *stops {
		p, err := faultproxy.Start(b.dsn)
		if err != nil {
			return nil, err
		}
		direct := b.setup()
		direct.TTL = 5 * time.Second
		behind := direct
		behind.DSN = p.DSN()
		a, w, err := b.pair(behind, direct)
		if err != nil {
			return nil, err
		}
		cut := time.Now()
		err = p.Silence()
		var n news
		if err == nil && toLoss {
			n, err = a.wait("lost")
		} else if err == nil {
			n, err = w.wait("held")
		}
		times = append(times, n.At.Sub(cut))
		_, _ = a.kill(), w.kill()
		p.Stop()
		if err != nil {
			return nil, err
		}
	}
	return times, nil
}
