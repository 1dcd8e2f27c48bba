package pgleasetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

var wholeStorePromises = []promise{
	{"EnsureSchema may be called again", ensureAgain},
	{"DeleteExpired keeps live rows, and tokens go on rising", deleteExpired},
}

var operatePromises = []promise{
	{"ForceRelease ends a term and tells its holder", forceRelease},
	{"ForceRelease with IfToken refuses another term", forceReleaseIfToken},
	{"a fenced term is lost though its client has the name again", fencedAndTakenAgain},
	{"Get shows held, released and expired rows in UTC C3", get},
	{"List filters by prefix, limit and expiry, in byte order", list},
	{"Info tells a silent holder", silentHolder},
}

func ensureAgain(t *testing.T, s *suite) {
	c := s.client(t)
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() { errs <- c.EnsureSchema(patient(t)) }()
	}
	for range cap(errs) {
		if err := await(t, "EnsureSchema", errs); err != nil {
			t.Error(err)
		}
	}
}

func deleteExpired(t *testing.T, s *suite) {
	c := s.client(t)
	prefix := s.name(t)
	live, released, expired, minHeld := prefix+"live", prefix+"released", prefix+"expired", prefix+"min held"
	l := try(t, c, live)
	old := try(t, c, released)
	release(t, old)
	try(t, c, expired)
	s.Expire(t, expired)
	release(t, try(t, c, minHeld, pglease.WithMinHold(longTTL)))

	if _, err := c.DeleteExpired(patient(t), -time.Second); err == nil {
		t.Error("DeleteExpired of a negative age: no error")
	}
	if _, err := c.DeleteExpired(patient(t), time.Hour); err != nil {
		t.Fatal(err)
	}
	if infos, err := c.List(patient(t), pglease.WithPrefix(prefix), pglease.WithExpired()); err != nil || len(infos) != 4 {
		t.Fatalf("after DeleteExpired of an hour: %d rows, %v; want 4", len(infos), err)
	}
	n, err := c.DeleteExpired(patient(t), 0)
	if err != nil || n < 2 {
		t.Fatalf("DeleteExpired: %d, %v; want 2 at least", n, err)
	}
	for _, name := range []string{released, expired} {
		if _, err := c.Get(patient(t), name); !errors.Is(err, pglease.ErrNotFound) {
			t.Errorf("Get of the deleted %q: %v, want ErrNotFound", name, err)
		}
	}
	for _, name := range []string{live, minHeld} {
		if info, err := c.Get(patient(t), name); err != nil || info.Expired() {
			t.Errorf("the live %q: %+v, %v", name, info, err)
		}
	}
	if err := l.Renew(patient(t)); err != nil {
		t.Errorf("the live lease after DeleteExpired: %v", err)
	}
	if next := try(t, c, released); next.Token() <= old.Token() {
		t.Errorf("token %d after %d and a deletion", next.Token(), old.Token())
	}
}

func forceRelease(t *testing.T, s *suite) {
	name := s.name(t)
	operator, other := s.client(t), s.client(t)
	holder := s.client(t, pglease.WithHeartbeatInterval(100*time.Millisecond))
	if _, err := operator.ForceRelease(patient(t), name); !errors.Is(err, pglease.ErrNotFound) {
		t.Fatalf("ForceRelease without a row: %v, want ErrNotFound", err)
	}
	l := try(t, holder, name)
	info, err := operator.ForceRelease(patient(t), name)
	if err != nil {
		t.Fatal(err)
	}
	if info.Name != name || info.Token != l.Token() || info.Owner != l.Owner() || !info.AcquiredAt.Equal(l.AcquiredAt()) || info.Expired() {
		t.Errorf("ForceRelease returned %+v, want the term that it fenced", info)
	}
	await(t, "Done of the fenced lease", l.Done())
	mustBeLost(t, "Err of the fenced lease", l.Err(), l)
	next := acquire(t, other, name)
	if next.Token() <= l.Token()+1 {
		t.Errorf("token %d; want more than %d and that of the force release", next.Token(), l.Token())
	}
	if err := next.Renew(patient(t)); err != nil {
		t.Errorf("the successor: %v", err)
	}
	release(t, next)
	// A released row may be forced too: it gets a new token.
	info, err = operator.ForceRelease(patient(t), name)
	if err != nil || info.Token != next.Token() || !info.Expired() {
		t.Errorf("ForceRelease of a released row: %+v, %v", info, err)
	}
	if info, err = operator.Get(patient(t), name); err != nil || info.Token <= next.Token() || !info.Expired() {
		t.Errorf("the row after it: %+v, %v; want a higher token than %d", info, err, next.Token())
	}
}

func forceReleaseIfToken(t *testing.T, s *suite) {
	name := s.name(t)
	operator := s.client(t)
	l := try(t, s.client(t), name)
	for _, token := range []int64{l.Token() - 1, l.Token() + 1, 0, -1} {
		_, err := operator.ForceRelease(patient(t), name, pglease.IfToken(token))
		var held *pglease.HeldError
		if !errors.As(err, &held) || held.Token != l.Token() || held.Owner != l.Owner() {
			t.Errorf("ForceRelease with IfToken(%d): %v; want a *HeldError with token %d", token, err, l.Token())
		}
	}
	if err := l.Renew(patient(t)); err != nil {
		t.Fatalf("after a refused ForceRelease: %v", err)
	}
	if _, err := operator.ForceRelease(patient(t), name, pglease.IfToken(l.Token())); err != nil {
		t.Fatal(err)
	}
	mustBeLost(t, "Renew", l.Renew(patient(t)), l)
	_, err := operator.ForceRelease(patient(t), s.name(t), pglease.IfToken(1))
	mustBe(t, "ForceRelease with IfToken without a row", err, pglease.ErrNotFound)
}

func fencedAndTakenAgain(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t, pglease.WithHeartbeatInterval(time.Second)) // so that both terms are in one heartbeat
	l := try(t, c, name)
	if _, err := s.client(t).ForceRelease(patient(t), name); err != nil {
		t.Fatal(err)
	}
	next := acquire(t, c, name)
	await(t, "Done of the fenced lease", l.Done())
	mustBeLost(t, "Err of the fenced lease", l.Err(), l)
	if err := next.Renew(patient(t)); err != nil {
		t.Errorf("the successor: %v", err)
	}
}

func get(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	if _, err := c.Get(patient(t), name); !errors.Is(err, pglease.ErrNotFound) {
		t.Fatalf("Get without a row: %v, want ErrNotFound", err)
	}
	l := try(t, c, name)
	info, err := c.Get(patient(t), name)
	if err != nil {
		t.Fatal(err)
	}
	for what, at := range map[string]time.Time{
		"AcquiredAt": info.AcquiredAt, "ExpiresAt": info.ExpiresAt, "HeartbeatAt": info.HeartbeatAt, "ObservedAt": info.ObservedAt,
	} {
		if at.Location() != time.UTC || at.IsZero() {
			t.Errorf("%s is not in UTC: %v", what, at)
		}
	}
	if info.Name != name || info.Owner != l.Owner() || info.Token != l.Token() || info.Mode != s.Mode ||
		!info.AcquiredAt.Equal(l.AcquiredAt()) || !info.ExpiresAt.Equal(l.ExpiresAt()) || !info.HeartbeatAt.Equal(l.AcquiredAt()) {
		t.Errorf("Get of a held lease: %+v", info)
	}
	if info.ObservedAt.Before(info.AcquiredAt) || info.Expired() || info.Remaining() <= longTTL-patience || info.Remaining() > longTTL {
		t.Errorf("Get of a held lease: %+v, remaining %v", info, info.Remaining())
	}
	release(t, l)
	info, err = c.Get(patient(t), name)
	if err != nil || !info.Expired() || info.Remaining() != 0 || info.Token != l.Token() || info.Zombie(0) || info.Mode != pglease.ModeTable {
		t.Errorf("Get of a released lease: %+v, %v", info, err)
	}
	l = try(t, c, name)
	s.Expire(t, name)
	info, err = c.Get(patient(t), name)
	if err != nil || !info.Expired() || info.Remaining() != 0 || info.Token != l.Token() {
		t.Errorf("Get of an expired lease: %+v, %v", info, err)
	}
}

func list(t *testing.T, s *suite) {
	c := s.client(t)
	prefix := s.name(t) + "/"
	byteOrder := []string{"%", "B", "_", "a", "a b", "b", "é", "\U0001F600"}
	for _, n := range []string{"b", "\U0001F600", "a", "_", "é", "B", "%", "a b"} {
		try(t, c, prefix+n)
	}
	release(t, try(t, c, prefix+"c"))
	try(t, c, prefix+"d")
	s.Expire(t, prefix+"d")

	tests := []struct {
		opts []pglease.ListOption
		want []string
	}{
		{[]pglease.ListOption{pglease.WithPrefix(prefix)}, byteOrder},
		{[]pglease.ListOption{pglease.WithPrefix(prefix), pglease.WithLimit(3)}, byteOrder[:3]},
		{[]pglease.ListOption{pglease.WithPrefix(prefix), pglease.WithLimit(1000)}, byteOrder},
		{[]pglease.ListOption{pglease.WithPrefix(prefix + "a")}, []string{"a", "a b"}},
		{[]pglease.ListOption{pglease.WithPrefix(prefix + "%")}, []string{"%"}},
		{[]pglease.ListOption{pglease.WithPrefix(prefix + "_")}, []string{"_"}},
		{[]pglease.ListOption{pglease.WithPrefix(prefix + `\`)}, nil},
		{[]pglease.ListOption{pglease.WithPrefix(prefix), pglease.WithExpired()}, []string{"%", "B", "_", "a", "a b", "b", "c", "d", "é", "\U0001F600"}},
		{[]pglease.ListOption{pglease.WithPrefix(prefix), pglease.WithExpired(), pglease.WithLimit(7)}, []string{"%", "B", "_", "a", "a b", "b", "c"}},
	}
	for i, test := range tests {
		infos, err := c.List(patient(t), test.opts...)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, info := range infos {
			got = append(got, info.Name[len(prefix):])
			if expired := info.Name == prefix+"c" || info.Name == prefix+"d"; info.Expired() != expired || info.AcquiredAt.Location() != time.UTC {
				t.Errorf("List %d: %+v", i, info)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("List %d: %q, want %q", i, got, test.want)
		}
	}
	all, err := c.List(patient(t))
	if err != nil || len(all) < len(byteOrder) || !slices.IsSortedFunc(all, func(a, b pglease.Info) int { return compare(a.Name, b.Name) }) {
		t.Errorf("List without options: %d leases, %v; want %d at least, in byte order", len(all), err, len(byteOrder))
	}
	for what, opt := range map[string]pglease.ListOption{"limit 0": pglease.WithLimit(0), "limit -1": pglease.WithLimit(-1), "NUL in prefix": pglease.WithPrefix("\x00")} {
		if _, err := c.List(patient(t), opt); err == nil {
			t.Errorf("List with %s: no error", what)
		}
	}
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func silentHolder(t *testing.T, s *suite) {
	name := s.name(t)
	c := s.client(t)
	l := try(t, c, name)
	const silence = 50 * time.Millisecond
	for deadline := time.Now().Add(patience); ; {
		info, err := c.Get(patient(t), name)
		if err != nil || time.Now().After(deadline) {
			t.Fatal("the holder never came to be silent:", fmt.Sprintf("%+v, %v", info, err))
		}
		if silent := info.ObservedAt.Sub(info.HeartbeatAt) > silence; info.Zombie(silence) != silent {
			t.Fatalf("Zombie(%v) is %v of %+v", silence, !silent, info)
		} else if silent {
			break
		}
	}
	if err := l.Renew(patient(t)); err != nil {
		t.Fatal(err)
	}
	if info, err := c.Get(patient(t), name); err != nil || info.Zombie(longTTL) {
		t.Errorf("after a renewal: %+v, %v", info, err)
	}
}
