package pgleasetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

var manyPromises = []promise{
	{"one free name of many is claimed, and held is the answer if there is none", tryAny},
	{"whoever waits for any name gets the one that becomes free", waitAny},
	{"whoever waits for any name does not wait for one that was given to another", waitAnyInLine},
	{"all names or none", acquireAll},
	{"overlapping sets in any order never deadlock H7", overlap},
	{"Go runs in the background, stops, and campaigns", background},
	{"Singleton does what Do does", singleton},
}

func tryAny(t *testing.T, s *suite) {
	prefix := s.name(t)
	names := []string{prefix + "c", prefix + "a", prefix + "b"}
	a, b := s.client(t), s.client(t)
	claimed := make(map[string]*pglease.Lease)
	for i := range names {
		c := a
		if i == 1 {
			c = b
		}
		l, err := c.TryAcquireAny(patient(t), names)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(names, l.Name()) || claimed[l.Name()] != nil {
			t.Fatalf("claimed %q, of %q; before: %v", l.Name(), names, claimed)
		}
		if held := mustBeHeld(t, a, l.Name()); held.Token != l.Token() {
			t.Errorf("token %d of %q, in the row %d", l.Token(), l.Name(), held.Token)
		}
		claimed[l.Name()] = l
	}
	_, err := a.TryAcquireAny(patient(t), names)
	var held *pglease.HeldError
	if !errors.As(err, &held) || !slices.Contains(names, held.Name) || held.Token != claimed[held.Name].Token() {
		t.Errorf("TryAcquireAny of held names: %v", err)
	}
	// A released name is free again, with a higher token, and so is an expired one.
	before := claimed[names[1]]
	release(t, before)
	l, err := b.TryAcquireAny(patient(t), names)
	if err != nil || l.Name() != names[1] || l.Token() <= before.Token() {
		t.Fatalf("TryAcquireAny after a release: %v, %v", l, err)
	}
	s.Expire(t, names[2])
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if l, err = b.AcquireAny(ctx, names); err != nil || l.Name() != names[2] {
		t.Fatalf("AcquireAny after an expiry: %v, %v", l, err)
	}
	for _, wrong := range [][]string{nil, {}, {prefix, ""}, {"\xff"}} {
		_, err := a.TryAcquireAny(patient(t), wrong)
		mustBe(t, "TryAcquireAny", err, pglease.ErrInvalidName)
	}
}

func waitAnyInLine(t *testing.T, s *suite) {
	prefix := s.name(t)
	names := []string{prefix + "a", prefix + "b", prefix + "c"}
	c := s.client(t, pglease.WithPollInterval(time.Hour))
	result := make(chan acquired, len(names))
	for range names {
		go func() {
			l, err := c.AcquireAny(patient(t), names)
			result <- acquired{l, err}
		}()
	}
	got := make(map[string]bool)
	for range names {
		r := await(t, "a waiter's lease", result)
		if r.err != nil {
			t.Fatal(r.err)
		}
		got[r.lease.Name()] = true
	}
	if len(got) != len(names) {
		t.Errorf("%d waiters got %v", len(names), got)
	}
}

func waitAny(t *testing.T, s *suite) {
	prefix := s.name(t)
	names := []string{prefix + "a", prefix + "b"}
	holder := s.client(t)
	held := map[string]*pglease.Lease{names[0]: try(t, holder, names[0]), names[1]: try(t, holder, names[1])}
	rec := newRecorder()
	c := s.client(t, pglease.WithObserver(rec), pglease.WithPollInterval(time.Hour))
	result := make(chan acquired, 1)
	go func() {
		l, err := c.AcquireAny(patient(t), names)
		result <- acquired{l, err}
	}()
	if e := rec.next(t, pglease.EventAcquire); !errors.Is(e.Err, pglease.ErrHeld) {
		t.Fatalf("the first attempt: %v", e.Err)
	}
	release(t, held[names[1]])
	got := await(t, "the waiter's lease", result)
	if got.err != nil || got.lease.Name() != names[1] {
		t.Fatalf("AcquireAny: %v, %v; want %q", got.lease, got.err, names[1])
	}
	// Long enough for a first answer from a loaded server, which is what the error is to contain.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err := s.client(t).AcquireAny(ctx, names)
	mustBe(t, "AcquireAny until a deadline", err, context.DeadlineExceeded)
	mustBe(t, "AcquireAny until a deadline", err, pglease.ErrHeld)
}

func acquireAll(t *testing.T, s *suite) {
	prefix := s.name(t)
	a, b, d := prefix+"a", prefix+"b", prefix+"d"
	c, other := s.client(t), s.client(t)
	leases, err := c.AcquireAll(patient(t), []string{d, a, b, a})
	if err != nil {
		t.Fatal(err)
	}
	if len(leases) != 3 || leases[0].Name() != a || leases[1].Name() != b || leases[2].Name() != d {
		t.Fatalf("AcquireAll: %v, want one of each in byte order", leases)
	}
	for _, name := range []string{a, b, d} {
		mustBeHeld(t, other, name)
	}
	if err := leases.Release(patient(t)); err != nil {
		t.Errorf("Release: %v", err)
	}
	l := try(t, other, b)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	leases, err = c.AcquireAll(ctx, []string{a, b, d})
	mustBe(t, "AcquireAll while one is held", err, context.DeadlineExceeded)
	mustBe(t, "AcquireAll while one is held", err, pglease.ErrHeld)
	if leases != nil {
		t.Errorf("AcquireAll returned %v beside its error", leases)
	}
	release(t, acquire(t, other, a)) // none of the rest
	release(t, acquire(t, other, d))
	release(t, l)
}

func overlap(t *testing.T, s *suite) {
	prefix := s.name(t)
	names := []string{prefix + "a", prefix + "b", prefix + "c"}
	var holders [3]atomic.Int32
	var wg sync.WaitGroup
	for i := range 4 {
		c := s.client(t, pglease.WithPollInterval(10*time.Millisecond))
		wg.Go(func() {
			for round := range 5 {
				var set []int
				for n := range names {
					if n != (i+round)%4 {
						set = append(set, n)
					}
				}
				var wanted []string
				for _, n := range set {
					wanted = append(wanted, names[n])
				}
				if i%2 == 1 {
					slices.Reverse(wanted)
				}
				leases, err := c.AcquireAll(patient(t), wanted)
				if err != nil {
					t.Errorf("AcquireAll(%q): %v", wanted, err)
					return
				}
				for _, n := range set {
					if holders[n].Add(1) != 1 {
						t.Errorf("%q is held twice", names[n])
					}
				}
				for _, n := range set {
					holders[n].Add(-1)
				}
				if err := leases.Release(patient(t)); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func background(t *testing.T, s *suite) {
	name := s.name(t)
	c, other := s.client(t), s.client(t)
	running := make(chan *pglease.Lease, 1)
	stay := func(ctx context.Context, l *pglease.Lease) error {
		running <- l
		<-ctx.Done()
		return ctx.Err()
	}
	task := c.Go(context.Background(), name, stay)
	l := await(t, "the task", running)
	if task.Lease() != l {
		t.Errorf("Lease of a running task: %v, want %v", task.Lease(), l)
	}
	mustBe(t, "Go on a held lease", other.Go(context.Background(), name, noTask).Wait(), pglease.ErrHeld)
	if err := other.Go(context.Background(), name, noTask, pglease.SkipIfHeld()).Wait(); err != nil {
		t.Errorf("Go with SkipIfHeld: %v", err)
	}
	task.Stop()
	await(t, "Done of the task", task.Done())
	if err := task.Wait(); err != nil || task.Lease() != nil {
		t.Errorf("after Stop: %v, lease %v", err, task.Lease())
	}
	mustBe(t, "Wait", c.Go(context.Background(), name, func(context.Context, *pglease.Lease) error { return errTask }).Wait(), errTask)

	// A campaign goes on after a loss.
	task = c.Go(context.Background(), name, stay, pglease.Campaign())
	l = await(t, "the campaign", running)
	s.Expire(t, name)
	mustBeLost(t, "Renew", l.Renew(patient(t)), l)
	if next := await(t, "the campaign after a loss", running); next.Token() <= l.Token() {
		t.Errorf("token %d after %d", next.Token(), l.Token())
	}
	if err := c.Close(patient(t)); err != nil {
		t.Errorf("Close: %v", err)
	}
	await(t, "Done of the campaign", task.Done())
	if err := task.Wait(); err == nil {
		t.Error("a campaign that was closed ended without an error")
	}
	release(t, try(t, other, name))
	mustBe(t, "Go of a closed client", c.Go(context.Background(), name, noTask).Wait(), pglease.ErrClosed)
}

func singleton(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	ran := 0
	job := c.Singleton(name, func(context.Context) error { ran++; mustBeHeld(t, c, name); return errTask })
	mustBe(t, "the job", job(patient(t)), errTask)
	l := try(t, s.client(t), name)
	mustBe(t, "the job of a held lease", job(patient(t)), pglease.ErrHeld)
	skipping := c.Singleton(name, func(context.Context) error { ran++; return errTask }, pglease.SkipIfHeld())
	if err := skipping(patient(t)); err != nil {
		t.Errorf("the job that skips: %v", err)
	}
	release(t, l)
	mustBe(t, "the job that skips", skipping(patient(t)), errTask)
	if ran != 2 {
		t.Errorf("the jobs ran %d times, want 2", ran)
	}
}
