package pgserver

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// NotRun ends a test that can't run on this machine: it prints "not run: reason" and skips the test, or fails it if
// PGLEASE_REQUIRE names feature.
func NotRun(t testing.TB, feature, reason string) {
	t.Helper()
	if Required(feature) {
		t.Fatalf("not run: %s (PGLEASE_REQUIRE names %s)", reason, feature)
	}
	t.Skip("not run: " + reason)
}

// Required says whether PGLEASE_REQUIRE, a list such as "docker,pgbouncer,pg13-18,standby,netns", names feature.
func Required(feature string) bool {
	return slices.ContainsFunc(strings.Split(os.Getenv("PGLEASE_REQUIRE"), ","), func(word string) bool {
		return strings.TrimSpace(word) == feature
	})
}
