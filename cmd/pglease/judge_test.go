package main

import (
	"strings"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// What no server at hand can be made to show: its version. (The rest is provoked on real servers, in driver_test.)
func TestJudgeVersion(t *testing.T) {
	for _, tt := range []struct {
		num  int
		want severity
	}{{90624, severityError}, {120022, severityError}, {130000, severityOK}, {180001, severityOK}, {190000, severityNotice}} {
		f := &facts{versionNum: tt.num, version: "x"}
		if got := f.judgeVersion(); got.Severity != tt.want {
			t.Errorf("version %d: %+v", tt.num, got)
		}
	}
}

// C2: a difference counts only if it is more than what the round trip leaves open.
func TestJudgeClock(t *testing.T) {
	for _, tt := range []struct {
		ahead, unsure time.Duration
		want          severity
		words         string
	}{
		{900 * time.Millisecond, 0, severityOK, ""},
		{3 * time.Second, 2500 * time.Millisecond, severityOK, ""},
		{3 * time.Second, time.Millisecond, severityWarning, "3s ahead of"},
		{-time.Minute, time.Millisecond, severityWarning, "1m0s behind"},
	} {
		f := &facts{ahead: tt.ahead, unsure: tt.unsure}
		if got := f.judgeClock(); got.Severity != tt.want || !strings.Contains(got.Finding, tt.words) {
			t.Errorf("%v ± %v: %+v", tt.ahead, tt.unsure, got)
		}
	}
}

func TestJudgeDurabilityWithSynchronousStandbys(t *testing.T) {
	for commit, want := range map[string]severity{"on": severityOK, "remote_apply": severityOK, "remote_write": severityWarning,
		"local": severityWarning, "off": severityError} {
		f := &facts{standbys: 1, settings: map[string]string{"synchronous_commit": commit, "synchronous_standby_names": "a"}}
		if got := f.judgeDurability(); len(got) != 1 || got[0].Severity != want {
			t.Errorf("synchronous_commit=%s: %+v", commit, got)
		}
	}
}

// Without a transaction there is none to end, whatever the limit.
func TestJudgeSessionsWithoutTransactions(t *testing.T) {
	for _, tt := range []struct {
		f    facts
		want severity
	}{
		{facts{oldest: 0, oldestPID: 0, transactionAge: -5 * time.Second}, severityOK},
		{facts{oldest: time.Second, oldestPID: 7, transactionAge: 0}, severityWarning},
		{facts{oldest: time.Second, oldestPID: 7, transactionAge: time.Minute}, severityOK},
	} {
		tt.f.maximum, tt.f.maximumDatabase, tt.f.maximumRole = 100, -1, -1
		if got := tt.f.judgeSessions()[0]; got.Severity != tt.want {
			t.Errorf("oldest %v (pid %d), limit %v: %+v", tt.f.oldest, tt.f.oldestPID, tt.f.transactionAge, got)
		}
	}
}

// One is not many.
func TestCounts(t *testing.T) {
	for n, want := range []string{"no lease is held", "1 lease is held, and its heartbeat", "2 leases are held"} {
		if got := held(make([]pglease.Info, n)); !strings.HasPrefix(got, want) {
			t.Errorf("of %d leases: %q", n, got)
		}
	}
	for n, want := range []string{"0 rows", "1 row", "2 rows"} {
		if got := count(int64(n), "row"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestDoctorRefusesANegativeAge(t *testing.T) {
	if code := execute([]string{"doctor", "--transaction-age", "-5s"}); code != codeUsage {
		t.Errorf("exit code %d", code)
	}
}

// Every statement is there, and comes without its comments.
func TestStatements(t *testing.T) {
	for _, name := range []string{"Table", "Server", "Settings", "Mark", "Rights", "Indexes", "Others", "Storage", "OldestTransaction",
		"Sessions", "Standbys"} {
		if s := statement(name); !strings.HasPrefix(s, "SELECT") || strings.Contains(s, "--") || strings.Contains(s, ";") {
			t.Errorf("statement %s is %q", name, s)
		}
	}
}
