package main

import (
	"errors"
	"strings"
	"testing"
)

const events = `{"Action":"start"}
{"Action":"run","Test":"TestConformance"}
{"Action":"run","Test":"TestConformance/table/pq/DB"}
{"Action":"run","Test":"TestConformance/table/pq/DB/a"}
{"Action":"run","Test":"TestConformance/table/pq/DB/b"}
{"Action":"pass","Test":"TestConformance/table/pq/DB/a"}
{"Action":"pass","Test":"TestConformance/table/pq/DB/b"}
{"Action":"pass","Test":"TestConformance/table/pq/DB"}
{"Action":"run","Test":"TestConformance/table/pgx/DB/a"}
{"Action":"output","Test":"TestConformance/table/pgx/DB/a","Output":"    x_test.go:1: why\n"}
{"Action":"fail","Test":"TestConformance/table/pgx/DB/a"}
{"Action":"fail","Test":"TestConformance"}
{"Action":"run","Test":"TestHybridConformance/pq/a"}
{"Action":"pass","Test":"TestHybridConformance/pq/a"}
{"Action":"output","Test":"TestHybridConformance/pq","Output":"    x_test.go:2: a session was left\n"}
{"Action":"fail","Test":"TestHybridConformance/pq"}
{"Action":"run","Test":"TestHybridConformance/pqx/a"}
{"Action":"pass","Test":"TestHybridConformance/pqx/a"}
{"Action":"run","Test":"TestPoolerConformance/session/table/pq"}
{"Action":"output","Test":"TestPoolerConformance/session/table/pq","Output":"    x_test.go:3: not run: no pgbouncer\n"}
{"Action":"skip","Test":"TestPoolerConformance/session/table/pq"}
`

func TestACellSaysRanFailedOrNotRunAndWhy(t *testing.T) {
	r := row{version: "15.1"}
	r.read([]byte(events))
	for prefix, want := range map[string]string{
		"TestConformance/table/pq/":                    "ran 2",
		"TestConformance/table/pgx/":                   "**FAILED** 1 of 1",
		"TestHybridConformance/pq/":                    "**FAILED** 1 of 2", // what fails after the subtests counts, too
		"TestPoolerConformance/session/table/pq":       "not run: no pgbouncer",
		"TestPoolerConformance/transaction/hybrid/pgx": "not run: short",
	} {
		if got := r.cell(prefix); got != want {
			t.Errorf("%s: %q, want %q", prefix, got, want)
		}
	}
	r = row{err: errors.New("no server")}
	if got := r.cell("TestConformance/table/pq/"); got != "**FAILED**" {
		t.Errorf("a version whose tests did not begin: %q", got)
	}
}

func TestAVersionThatIsRequiredMustRun(t *testing.T) {
	missing := row{version: "13", notRun: "no npm"}
	t.Setenv("PGLEASE_REQUIRE", "docker")
	if err := missing.fault(); err != nil {
		t.Errorf("not required: %v", err)
	}
	t.Setenv("PGLEASE_REQUIRE", "docker,pg13-18")
	if err := missing.fault(); err == nil || !strings.Contains(err.Error(), "no npm") {
		t.Errorf("required: %v", err)
	}
	if got := missing.cell("TestConformance/table/pq/"); got != "not run: no npm" {
		t.Error(got)
	}
}
