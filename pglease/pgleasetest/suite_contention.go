package pgleasetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

var contentionPromises = []promise{
	{"many who fight over one name: never two at once, all tokens distinct O10", fight},
	{"many leases of one client are renewed together", together},
}

func fight(t *testing.T, s *suite) {
	name := s.name(t)
	const fighters, rounds = 8, 6
	clients := []*pglease.Client{s.client(t), s.client(t), s.client(t)}
	var holders atomic.Int32
	var mu sync.Mutex
	var tokens []int64
	done := make(chan struct{}, fighters)
	for i := range fighters {
		c := clients[i%len(clients)]
		go func() {
			defer func() { done <- struct{}{} }()
			for range rounds {
				l, err := c.Acquire(patient(t), name, pglease.WithPollInterval(5*time.Millisecond))
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d holders at once", n)
				}
				mu.Lock()
				tokens = append(tokens, l.Token())
				mu.Unlock()
				holders.Add(-1)
				if err := l.Release(patient(t)); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		}()
	}
	for range fighters {
		await(t, "the fight", done)
	}
	if len(tokens) != fighters*rounds {
		t.Errorf("%d terms, want %d", len(tokens), fighters*rounds)
	}
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			t.Errorf("token %d after %d", tokens[i], tokens[i-1])
		}
	}
}

func together(t *testing.T, s *suite) {
	prefix := s.name(t)
	rec := newRecorder()
	c := s.client(t, pglease.WithObserver(rec), pglease.WithHeartbeatInterval(300*time.Millisecond))
	leases := make(map[string]*pglease.Lease)
	for i := range 10 {
		name := prefix + string(rune('a'+i))
		leases[name] = try(t, c, name)
	}
	gone := prefix + "c"
	s.Expire(t, gone)
	await(t, "Done of the expired one", leases[gone].Done())
	renewed := make(map[string]bool)
	for len(renewed) < len(leases)-1 {
		if e := rec.next(t, pglease.EventRenew); e.Name != gone {
			if e.Err != nil {
				t.Fatalf("a heartbeat of %q: %v", e.Name, e.Err)
			}
			renewed[e.Name] = true
		}
	}
	for name, l := range leases {
		if name != gone && l.Err() != nil {
			t.Errorf("%q was lost with another: %v", name, l.Err())
		}
	}
}
