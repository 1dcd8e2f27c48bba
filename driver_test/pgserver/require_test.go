package pgserver

import "testing"

func TestRequiredReadsTheList(t *testing.T) {
	for _, c := range []struct {
		list, feature string
		want          bool
	}{
		{"", "docker", false},
		{"docker", "docker", true},
		{"docker,pg13-18, standby", "pg13-18", true},
		{"docker,pg13-18, standby", "standby", true},
		{"docker,standby", "dock", false},
	} {
		t.Setenv("PGLEASE_REQUIRE", c.list)
		if got := Required(c.feature); got != c.want {
			t.Errorf("PGLEASE_REQUIRE=%q: Required(%q) = %v", c.list, c.feature, got)
		}
	}
}

// ending records how NotRun ends a test.
type ending struct {
	testing.TB
	skipped, failed bool
}

func (*ending) Helper()                 {}
func (e *ending) Skip(...any)           { e.skipped = true }
func (e *ending) Fatalf(string, ...any) { e.failed = true; panic(e) }

func TestNotRunFailsOnlyWhatIsRequired(t *testing.T) {
	t.Setenv("PGLEASE_REQUIRE", "netns")
	for feature, fails := range map[string]bool{"docker": false, "netns": true} {
		e := &ending{}
		func() {
			defer func() { _ = recover() }() // Fatalf does not return
			NotRun(e, feature, "a reason")
		}()
		if e.failed != fails || e.skipped == fails {
			t.Errorf("%s: skipped %v, failed %v", feature, e.skipped, e.failed)
		}
	}
}
