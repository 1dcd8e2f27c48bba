//go:build linux

package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/history"
	"github.com/pglease/pglease-go/driver_test/pgserver"
)

// A card is a fault that is caused some times in each round.
type card struct {
	kind  history.Kind
	times int
	cause fault
}

// always are the faults of the whole run.
var always = []card{
	{history.Kill, 4, kill},
	{history.Stop, 4, stop(history.Stop, 0.1, 0.8)},
	{history.LongStop, 4, stop(history.LongStop, 1.1, 2.5)},
	{history.Terminate, 6, terminate},
	{history.Terminate, 2, terminateStopped},
	{history.Freeze, 2, freeze},
	{history.Crash, 1, crash},
	{history.Promote, 1, promote(history.Promote, pgserver.Synchronous())},
	{history.PromoteAsync, 1, promote(history.PromoteAsync)},
	{history.Silence, 3, network(history.Silence, 5*time.Second, func(p *process, _ float64) error { return p.slot.proxy.Silence() })},
	{history.HalfOpen, 3, network(history.HalfOpen, 5*time.Second, func(p *process, _ float64) error { return p.slot.proxy.HalfOpen() })},
	{history.Latency, 3, network(history.Latency, 4*time.Second, func(p *process, draw float64) error { return p.slot.proxy.Delay(10 + int(draw*700)) })},
	{history.Reset, 3, network(history.Reset, 10, func(p *process, _ float64) error { return p.slot.proxy.Reset() })},
	{history.Drain, 3, drainPool},
	{history.Edit, 2, operator(history.Edit, "", "UPDATE pglease_leases SET expires_at = clock_timestamp() WHERE task_name = $1")},
	{history.ForceOut, 2, forceOut},
}

// While the server's clock may stand behind a past grant, no row may be deleted: what is granted then would get a lower
// token, which 3.8 excludes. So operators and Python workers delete in the first half, and the clock jumps in the second.
var (
	deleting = []card{
		{history.Remove, 3, operator(history.Remove, history.Delete, "DELETE FROM pglease_leases WHERE task_name = $1")},
	}
	jumping = []card{
		{history.Nudge, 2, jump(history.Nudge, 10*time.Millisecond, 60*time.Millisecond)}, // the smallest margin is 100 ms
		{history.Back, 2, jump(history.Back, -2*time.Second, -10*time.Millisecond)},
		{history.Forward, 1, jump(history.Forward, 500*time.Millisecond, 3*time.Second)},
	}
)

// torment causes faults for so long, and returns when all of them are over.
func (d *director) torment(ctx context.Context, length time.Duration) {
	end := time.Now().Add(length)
	half := end
	if d.clock != nil {
		half = time.Now().Add(length / 2)
	}
	d.deal(ctx, half, slices.Concat(always, deleting))
	if d.clock == nil {
		return
	}
	d.retire("python")
	d.deal(ctx, end, slices.Concat(always, jumping))
}

// retire has the workers of a backend end.
func (d *director) retire(backend string) {
	for _, s := range d.slots {
		if s.Who.Backend == backend {
			s.process().tell()
			d.ended(s.process())
		}
	}
}

// deal causes one fault after the other until end, in the order of a deck that is shuffled again and again. A fault that takes
// its time does not hold up the next.
func (d *director) deal(ctx context.Context, end time.Time, cards []card) {
	var deck []card
	for _, c := range cards {
		for range c.times {
			if strings.Contains(string(c.kind), *only) {
				deck = append(deck, c)
			}
		}
	}
	var under sync.WaitGroup
	defer under.Wait()
	for next := len(deck); len(deck) > 0; next++ {
		if next == len(deck) {
			next = 0
			d.rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		draw, pause := d.rng.Float64(), between(200*time.Millisecond, 1800*time.Millisecond, d.rng.Float64())
		if sleep(ctx, pause); ctx.Err() != nil || time.Now().After(end) {
			return
		}
		c := deck[next]
		under.Go(func() { d.failed(c.kind, c.cause(d, context.WithoutCancel(ctx), draw)) })
	}
	sleep(ctx, time.Until(end))
}
