package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// A waitLine is the line on a terminal that says who holds the lease that is waited for.
type waitLine struct {
	console *console
	name    string

	mu   sync.Mutex
	last *pglease.HeldError // what the database answered last; nil: held by nobody, or not known
	at   time.Time          // when it did
}

// show begins to show the line; the function that it returns takes it away.
func (w *waitLine) show() func() {
	if !w.console.terminal {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				w.console.progress("")
				return
			case <-tick.C:
				w.console.progress(w.text(time.Now()))
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// answered records what an attempt to acquire has told.
func (w *waitLine) answered(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.at = nil, time.Now()
	errors.As(err, &w.last)
}

func (w *waitLine) text(now time.Time) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := printable(w.name)
	if w.last == nil {
		return fmt.Sprintf("waiting for %s", name)
	}
	left := max(0, w.last.Remaining()-now.Sub(w.at))
	if w.last.Expired() {
		return fmt.Sprintf("waiting for %s: its row is locked by somebody", name)
	}
	if released(w.last.Info) {
		return fmt.Sprintf("waiting for %s: released, and kept for another %s (minimum hold)", name, left.Round(time.Second))
	}
	return fmt.Sprintf("waiting for %s: held by %s since %s, for another %s at most unless it is renewed", name,
		printable(w.last.Owner), w.last.AcquiredAt.Local().Format("15:04:05"), left.Round(time.Second))
}
