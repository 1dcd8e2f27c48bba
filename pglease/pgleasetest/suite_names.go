package pgleasetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/pglease/pglease-go/pglease"
)

var namePromises = []promise{
	{"invalid names are refused everywhere N1", invalidNames},
	{"names are compared byte for byte N1", distinctNames},
	{"the longest name works N1", longestName},
}

func invalidNames(t *testing.T, s *suite) {
	c := s.client(t)
	for _, name := range []string{"", "a\x00b", "\xff", "a\xc3", "\xed\xa0\x80", strings.Repeat("x", 256), strings.Repeat("é", 256)} {
		_, err := c.TryAcquire(patient(t), name)
		mustBe(t, "TryAcquire", err, pglease.ErrInvalidName)
		_, err = c.Acquire(patient(t), name)
		mustBe(t, "Acquire", err, pglease.ErrInvalidName)
		_, err = c.Get(patient(t), name)
		mustBe(t, "Get", err, pglease.ErrInvalidName)
		_, err = c.ForceRelease(patient(t), name)
		mustBe(t, "ForceRelease", err, pglease.ErrInvalidName)
		mustBe(t, "Do", c.Do(patient(t), name, noTask), pglease.ErrInvalidName)
		mustBe(t, "Lead", c.Lead(patient(t), name, noTask), pglease.ErrInvalidName)
	}
}

func distinctNames(t *testing.T, s *suite) {
	c := s.client(t)
	prefix := s.name(t)
	names := []string{
		"a", "A", " a", "a ", "a\n", "a\t", `"a"`, "'a'", "a'; DROP TABLE pglease_leases; --", `a\`, `a\\`, "a%", "a_", "%", "$1", "{a}",
		"é", "e\u0301", "É", // composed, decomposed, upper case
		"ﬁ", "fi", "ß", "SS", "ss", "K", "\u212a", // ligature, sharp s, Kelvin sign
		"ａ", "а", // full width, Cyrillic
		"a\u200b", "a\u00ad", "\ufeffa", // invisible
		"世界", "\U0001F600", "\u0001", "NULL", "0", "00", "\ufffd",
	}
	leases := make(map[int64]string)
	for _, n := range names {
		l := try(t, c, prefix+n)
		if l.Name() != prefix+n {
			t.Errorf("lease of %q is called %q", prefix+n, l.Name())
		}
		leases[l.Token()] = n
	}
	infos, err := c.List(patient(t), pglease.WithPrefix(prefix))
	if err != nil || len(infos) != len(names) {
		t.Fatalf("List: %d leases, %v; want %d", len(infos), err, len(names))
	}
	for _, n := range names {
		info, err := c.Get(patient(t), prefix+n)
		if err != nil || info.Name != prefix+n {
			t.Errorf("Get(%q): %q, %v", prefix+n, info.Name, err)
		}
		if held := mustBeHeld(t, c, prefix+n); held.Token != info.Token {
			t.Errorf("%q is held with token %d, by Get with %d", n, held.Token, info.Token)
		}
	}
	if _, err := c.Get(patient(t), prefix+"b"); !errors.Is(err, pglease.ErrNotFound) {
		t.Errorf("Get of a name that nobody used: %v, want ErrNotFound", err)
	}
}

func longestName(t *testing.T, s *suite) {
	c := s.client(t)
	prefix := s.run
	for _, r := range []string{"x", "é", "世", "\U0001F600"} {
		name := prefix + strings.Repeat(r, 255-len([]rune(prefix)))
		l := try(t, c, name)
		info, err := c.Get(patient(t), name)
		if err != nil || info.Name != name {
			t.Errorf("Get of a name of 255 %q: %q, %v", r, info.Name, err)
		}
		release(t, l)
	}
}
