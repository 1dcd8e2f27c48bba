//go:build linux

package main

import (
	"context"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/history"
)

// any takes whichever of its names is free.
func (a *actor) any(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	o := a.r.call(0, history.Try, "", 0)
	l, err := a.c.TryAcquireAny(limited, a.Names)
	if err != nil {
		a.r.end(o, history.No, err)
		return
	}
	o.Name = l.Name()
	a.r.granted(o, l, a.watches)
	a.hold(ctx, l)
	a.release(l)
}

// all takes two names or none, and works under the first.
func (a *actor) all(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, time.Duration(500+a.rng.IntN(4000))*time.Millisecond)
	defer cancel()
	wanted := []string{a.Names[0], a.Names[1+a.rng.IntN(len(a.Names)-1)]}
	var calls []*history.Op
	for _, name := range wanted {
		calls = append(calls, a.r.call(0, history.Acquire, name, 0))
	}
	leases, err := a.c.AcquireAll(limited, wanted)
	if err != nil {
		for _, o := range calls {
			a.r.end(o, history.Unknown, err)
		}
		return
	}
	for _, l := range leases {
		for i, name := range wanted {
			if l.Name() == name {
				a.r.granted(calls[i], l, a.watches)
			}
		}
	}
	a.hold(ctx, leases[0])
	for _, l := range leases {
		a.release(l)
	}
}
