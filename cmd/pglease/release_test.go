package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// A token that the term has not may never have been one: nothing is said of a term that is over.
func TestOtherToken(t *testing.T) {
	now := time.Now()
	for want, expires := range map[string]time.Time{
		`the term of "job" has the token 41, not 1, and is held by me`:  now.Add(time.Minute),
		`nobody holds "job", and its last term has the token 41, not 1`: now.Add(-time.Minute),
	} {
		err := otherToken(pglease.Info{Name: "job", Owner: "me", Token: 41, ExpiresAt: expires, ObservedAt: now}, 1)
		var e *exitError
		if !errors.As(err, &e) || e.code != codeHeld || !strings.HasSuffix(e.text, want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
}
