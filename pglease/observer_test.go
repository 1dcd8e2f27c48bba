package pglease

import (
	"context"
	"errors"
	"testing"
	"time"
)

type nobody struct{}

func (nobody) Observe(context.Context, Event) {}

var errObserved = errors.New("an error")

func event() Event {
	return Event{Kind: EventRenew, Name: "name", Token: 1, Start: time.Now(), Err: errObserved}
}

// Design section 9: without an observer, 0 allocations for it.
func TestNoObserverCostsNoAllocation(t *testing.T) {
	ctx := context.Background()
	for what, c := range map[string]*Client{"none": {}, "one": {observer: nobody{}}} {
		if n := testing.AllocsPerRun(1000, func() { c.observe(ctx, event()) }); n != 0 {
			t.Errorf("observer %s: %v allocations an event", what, n)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	ctx := context.Background()
	for what, c := range map[string]*Client{"none": {}, "one": {observer: nobody{}}} {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.observe(ctx, event())
			}
		})
	}
}

func TestEventKindsHaveNames(t *testing.T) {
	seen := make(map[string]bool)
	for k := EventAcquire; k <= EventWithdraw; k++ {
		if s := k.String(); s == "unknown" || seen[s] {
			t.Errorf("kind %d is called %q", k, s)
		}
		seen[k.String()] = true
	}
	if EventKind(0).String() != "unknown" || EventKind(99).String() != "unknown" {
		t.Error("a kind that does not exist has a name")
	}
}
