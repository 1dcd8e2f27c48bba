package pgleasetest

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

var acquirePromises = []promise{
	{"a held lease is refused with the holder's Info, a released one granted again", acquireRelease},
	{"tokens strictly increase over release, expiry and force release", tokensIncrease},
	{"tokens strictly increase over deletion of the row O5", tokensIncreaseOverDeletion},
	{"leases are not re-entrant P4", notReentrant},
	{"a released lease stays taken until its minimum hold is over W7", minHold},
	{"a cancelled acquire leaves nothing held H8", cancelledAcquire},
	{"two first acquirers of a name: exactly one wins D3", firstAcquirers},
	{"metadata of client and acquire are in the row", metadata},
	{"a TTL keeps its milliseconds C6", milliseconds},
}

func acquireRelease(t *testing.T, s *suite) {
	name := s.name(t)
	a, b := s.client(t), s.client(t)
	l := try(t, a, name)
	if l.Name() != name || l.Token() <= 0 || l.Owner() == "" {
		t.Errorf("lease: name %q, owner %q, token %d", l.Name(), l.Owner(), l.Token())
	}
	if got := l.ExpiresAt().Sub(l.AcquiredAt()); got != longTTL {
		t.Errorf("ExpiresAt is %v after AcquiredAt, want %v", got, longTTL)
	}
	if l.AcquiredAt().Location() != time.UTC || l.ExpiresAt().Location() != time.UTC || l.Deadline().Location() != time.UTC {
		t.Errorf("times not in UTC: %v, %v, %v", l.AcquiredAt(), l.ExpiresAt(), l.Deadline())
	}
	if err := l.Err(); err != nil {
		t.Errorf("Err of a held lease: %v", err)
	}

	held := mustBeHeld(t, b, name)
	if held.Name != name || held.Owner != l.Owner() || held.Token != l.Token() || held.Mode != s.Mode {
		t.Errorf("HeldError says %q, %q, %d, %q; want %q, %q, %d, %q",
			held.Name, held.Owner, held.Token, held.Mode, name, l.Owner(), l.Token(), s.Mode)
	}
	if held.Expired() || held.Remaining() <= 0 || held.Remaining() > longTTL || !held.AcquiredAt.Equal(l.AcquiredAt()) {
		t.Errorf("HeldError: remaining %v, acquired at %v; want up to %v, %v", held.Remaining(), held.AcquiredAt, longTTL, l.AcquiredAt())
	}
	for _, part := range []string{name, l.Owner()} {
		if !strings.Contains(held.Error(), part) {
			t.Errorf("the text of the HeldError does not name %q: %s", part, held)
		}
	}

	release(t, l)
	next := try(t, b, name)
	if next.Token() <= l.Token() {
		t.Errorf("token %d after %d", next.Token(), l.Token())
	}
	if next.Owner() == l.Owner() {
		t.Errorf("two clients are the same owner: %q", l.Owner())
	}
}

func tokensIncrease(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	last := int64(0)
	higher := func(how string) *pglease.Lease {
		t.Helper()
		l := acquire(t, c, name)
		if l.Token() <= last {
			t.Fatalf("token after %s: %d, want more than %d", how, l.Token(), last)
		}
		last = l.Token()
		return l
	}
	release(t, higher("nothing"))
	l := higher("a release")
	s.Expire(t, name)
	l2 := higher("an expiry")
	if _, err := c.ForceRelease(patient(t), name); err != nil {
		t.Fatal(err)
	}
	info, err := c.Get(patient(t), name)
	if err != nil || info.Token <= last {
		t.Fatalf("token in the row after a force release: %d, %v; want more than %d", info.Token, err, last)
	}
	last = info.Token
	release(t, higher("a force release"))
	for _, old := range []*pglease.Lease{l, l2} {
		mustBe(t, "release of an old term", old.Release(patient(t)), pglease.ErrLost)
	}
}

func tokensIncreaseOverDeletion(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	l := try(t, c, name)
	s.Delete(t, name)
	if _, err := c.Get(patient(t), name); !errors.Is(err, pglease.ErrNotFound) {
		t.Fatalf("Get of a deleted row: %v", err)
	}
	next := acquire(t, c, name)
	if next.Token() <= l.Token() {
		t.Fatalf("token %d after %d", next.Token(), l.Token())
	}
	mustBeLost(t, "renewal of the deleted term", l.Renew(patient(t)), l)
}

func notReentrant(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	l := try(t, c, name)
	mustBeHeld(t, c, name)
	release(t, l)
	release(t, try(t, c, name))
}

func minHold(t *testing.T, s *suite) {
	name := s.name(t)
	c, other := s.client(t), s.client(t)
	const hold = 2 * time.Second
	first := try(t, c, name, pglease.WithMinHold(hold))
	release(t, first)
	held := mustBeHeld(t, other, name)
	if left := held.Remaining(); left > hold {
		t.Errorf("remaining after the release: %v, want %v at the most", left, hold)
	}
	mustBe(t, "Err", first.Err(), pglease.ErrReleased)
	mustBe(t, "Renew", first.Renew(patient(t)), pglease.ErrReleased)
	next := acquire(t, other, name)
	if got := next.AcquiredAt().Sub(first.AcquiredAt()); got < hold {
		t.Errorf("granted again %v after the start of the term, want %v at least", got, hold)
	}
	release(t, next)

	// A minimum hold that is over does not count.
	long := try(t, c, name, pglease.WithMinHold(time.Millisecond))
	for {
		info, err := c.Get(patient(t), name)
		if err != nil {
			t.Fatal(err)
		}
		if info.ObservedAt.Sub(long.AcquiredAt()) > time.Millisecond {
			break
		}
	}
	release(t, long)
	release(t, try(t, other, name))
}

func cancelledAcquire(t *testing.T, s *suite) {
	name := s.name(t)
	c, other := s.client(t), s.client(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l, err := c.TryAcquire(ctx, name)
	if l != nil {
		t.Fatal("a cancelled context was given a lease")
	}
	mustBe(t, "TryAcquire on a cancelled context", err, context.Canceled)
	if errors.Is(err, pglease.ErrHeld) {
		t.Errorf("TryAcquire on a cancelled context says held: %v", err)
	}
	for range 30 {
		ctx, cancel := context.WithTimeout(context.Background(), rand.N(3*time.Millisecond))
		l, err := c.TryAcquire(ctx, name)
		cancel()
		switch {
		case err == nil:
			release(t, l)
		case errors.Is(err, pglease.ErrHeld): // the grant of the attempt before, not yet taken back
		default:
			mustBe(t, "TryAcquire until a deadline", err, context.DeadlineExceeded)
		}
	}
	// longTTL is more than the patience of this.
	release(t, acquire(t, other, name))
}

func firstAcquirers(t *testing.T, s *suite) {
	clients := []*pglease.Client{s.client(t), s.client(t), s.client(t), s.client(t)}
	for range 5 {
		name := s.name(t)
		start := make(chan struct{})
		errs := make(chan error, len(clients))
		for _, c := range clients {
			go func() {
				<-start
				_, err := c.TryAcquire(context.Background(), name)
				errs <- err
			}()
		}
		close(start)
		won := 0
		for range clients {
			if err := await(t, "TryAcquire", errs); err == nil {
				won++
			} else if !errors.Is(err, pglease.ErrHeld) {
				t.Errorf("the loser's error: %v, want ErrHeld", err)
			}
		}
		if won != 1 {
			t.Errorf("%d of %d first acquirers won", won, len(clients))
		}
	}
}

func metadata(t *testing.T, s *suite) {
	name := s.name(t)
	awkward := `"quoted" \ 'single' ` + "\n\t é 世界 \U0001F600 {}"
	c := s.client(t, pglease.WithMetadata(map[string]string{"team": "billing", "shard": "1"}))
	l := try(t, c, name, pglease.WithMetadata(map[string]string{"shard": "2", awkward: awkward}))
	info, err := c.Get(patient(t), name)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"team": "billing", "shard": "2", awkward: awkward}
	got := maps.Clone(info.Metadata)
	maps.DeleteFunc(got, func(k, _ string) bool { _, asked := want[k]; return !asked })
	if !maps.Equal(got, want) {
		t.Errorf("metadata %q, want %q", got, want)
	}
	if info.Metadata["pid"] == "" || info.Metadata["program"] == "" {
		t.Errorf("metadata do not say which process: %q", info.Metadata)
	}
	release(t, l)
	other := s.client(t)
	try(t, other, name)
	if info, err = c.Get(patient(t), name); err != nil {
		t.Fatal(err)
	}
	if _, there := info.Metadata["shard"]; there {
		t.Errorf("metadata of the term before are in the row: %q", info.Metadata)
	}
}

func milliseconds(t *testing.T, s *suite) {
	const ttl = 1234 * time.Millisecond
	l := try(t, s.client(t), s.name(t), pglease.WithTTL(ttl))
	if got := l.ExpiresAt().Sub(l.AcquiredAt()); got != ttl && l.Err() == nil {
		t.Errorf("the lease expires after %v, want %v", got, ttl)
	}
}
