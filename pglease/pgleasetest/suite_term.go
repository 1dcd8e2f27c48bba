package pgleasetest

import (
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

var termPromises = []promise{
	{"expired is lost even if nobody has taken the lease", expiredIsLost},
	{"a late release or renewal never touches the successor O1", lateRelease},
	{"a released term is not revived by a renewal O3", notRevived},
	{"Release is idempotent", releaseTwice},
	{"Release says ErrLost once if the lease was gone", releaseGone},
	{"Renew prolongs the lease", renewProlongs},
	{"heartbeats keep the lease beyond its TTL", heartbeats},
}

func expiredIsLost(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	l := try(t, c, name)
	s.Expire(t, name)
	mustBeLost(t, "renewal of an expired lease", l.Renew(patient(t)), l)
	mustBeLost(t, "Err", l.Err(), l)
	mustBeLost(t, "another renewal", l.Renew(patient(t)), l)
	release(t, acquire(t, c, name))
}

func lateRelease(t *testing.T, s *suite) {
	a, b := s.client(t), s.client(t)
	old := map[string]func(*pglease.Lease) error{
		"release": func(l *pglease.Lease) error { return l.Release(patient(t)) },
		"renewal": func(l *pglease.Lease) error { return l.Renew(patient(t)) },
	}
	for what, late := range old {
		for who, successor := range map[string]*pglease.Client{"same": a, "other": b} {
			name := s.name(t)
			l := try(t, a, name)
			s.Expire(t, name)
			next := acquire(t, successor, name)
			before, err := b.Get(patient(t), name)
			if err != nil {
				t.Fatal(err)
			}
			mustBeLost(t, "late "+what, late(l), l)
			after, err := b.Get(patient(t), name)
			if err != nil {
				t.Fatal(err)
			}
			if after.Token != next.Token() || !after.ExpiresAt.Equal(before.ExpiresAt) || !after.HeartbeatAt.Equal(before.HeartbeatAt) || after.Expired() {
				t.Errorf("late %s, successor is the %s client: the row was %+v, is %+v", what, who, before, after)
			}
			if err := next.Renew(patient(t)); err != nil {
				t.Errorf("the successor's renewal: %v", err)
			}
			release(t, next)
		}
	}
}

func notRevived(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	for range 20 {
		l := try(t, c, name)
		renewed := make(chan error, 1)
		go func() { renewed <- l.Renew(patient(t)) }()
		release(t, l)
		if err := await(t, "Renew", renewed); err != nil {
			mustBe(t, "a renewal beside a release", err, pglease.ErrReleased)
		}
		info, err := c.Get(patient(t), name)
		if err != nil || !info.Expired() {
			t.Fatalf("after a release beside a renewal: %+v, %v; want an expired row", info, err)
		}
	}
}

func releaseTwice(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	l := try(t, c, name)
	release(t, l)
	release(t, l)
	next := try(t, c, name)
	release(t, l)
	if err := next.Renew(patient(t)); err != nil {
		t.Errorf("the successor after another release of the old term: %v", err)
	}
	release(t, next)

	// Many at once: one does it, all are told that it is done.
	l = try(t, c, name)
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() { errs <- l.Release(patient(t)) }()
	}
	for range cap(errs) {
		if err := await(t, "Release", errs); err != nil {
			t.Errorf("one of several releases: %v", err)
		}
	}
}

func releaseGone(t *testing.T, s *suite) {
	c := s.client(t)
	for what, end := range map[string]func(string){
		"expiry":   func(name string) { s.Expire(t, name) },
		"deletion": func(name string) { s.Delete(t, name) },
		"force release": func(name string) {
			if _, err := c.ForceRelease(patient(t), name); err != nil {
				t.Fatal(err)
			}
		},
	} {
		name := s.name(t)
		l := try(t, c, name)
		end(name)
		mustBeLost(t, "release after "+what, l.Release(patient(t)), l)
		if err := l.Release(patient(t)); err != nil {
			t.Errorf("second release after %s: %v, want nil", what, err)
		}
	}
}

func renewProlongs(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	l := try(t, c, name)
	expires, deadline := l.ExpiresAt(), l.Deadline()
	if err := l.Renew(patient(t)); err != nil {
		t.Fatal(err)
	}
	info, err := c.Get(patient(t), name)
	if err != nil {
		t.Fatal(err)
	}
	if !l.ExpiresAt().After(expires) || !l.Deadline().After(deadline) {
		t.Errorf("after a renewal: expires %v, deadline %v; before: %v, %v", l.ExpiresAt(), l.Deadline(), expires, deadline)
	}
	if !info.ExpiresAt.Equal(l.ExpiresAt()) || !info.AcquiredAt.Equal(l.AcquiredAt()) || info.Token != l.Token() || !info.HeartbeatAt.After(info.AcquiredAt) {
		t.Errorf("the row after a renewal: %+v", info)
	}
	if got := info.ExpiresAt.Sub(info.HeartbeatAt); got != longTTL {
		t.Errorf("the row expires %v after its heartbeat, want %v", got, longTTL)
	}
}

func heartbeats(t *testing.T, s *suite) {
	name := s.name(t)
	rec := newRecorder()
	c := s.client(t, pglease.WithObserver(rec))
	l := try(t, c, name, pglease.WithTTL(2*time.Second), pglease.WithHeartbeatInterval(100*time.Millisecond))
	for range 3 {
		if e := rec.next(t, pglease.EventRenew); e.Err != nil || e.Name != name || e.Token != l.Token() {
			t.Fatalf("the event of a heartbeat: %+v", e)
		}
	}
	first := l.AcquiredAt().Add(2 * time.Second)
	for l.ExpiresAt().Before(first.Add(time.Second)) {
		if e := rec.next(t, pglease.EventRenew); e.Err != nil {
			t.Fatalf("a heartbeat: %v", e.Err)
		}
	}
	mustBeHeld(t, s.client(t), name)
	release(t, l)
}
