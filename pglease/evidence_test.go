package pglease

import (
	"testing"
	"time"

	"github.com/pglease/pglease-go/db"
)

// TestEvidenceThatDoesNotSayItsNotice: what a later version may write is no reason to take a lease early.
func TestEvidenceThatDoesNotSayItsNotice(t *testing.T) {
	row := db.GetLeaseRow{OwnerID: "a", Token: 7, AcquiredAt: time.UnixMicro(5)}
	for _, c := range []struct {
		column string
		counts bool
		notice time.Duration
	}{
		{`{"owner": "a", "token": 7, "acquired_us": 5, "pid": 1, "notice_ms": 100, "more": []}`, true, 100 * time.Millisecond},
		{`{"owner": "a", "token": 7, "acquired_us": 5, "pid": 1, "notice_ms": 0}`, true, 0},
		{`{"owner": "a", "token": 7, "acquired_us": 5, "pid": 1}`, true, -1},
		{`{"owner": "a", "token": 7, "acquired_us": 5, "pid": 1, "notice_ms": 100.5}`, false, -1},
		{`{"owner": "a", "token": 6, "acquired_us": 5, "pid": 1, "notice_ms": 100}`, false, 100 * time.Millisecond},
		{`{"owner": "b", "token": 7, "acquired_us": 5, "pid": 1, "notice_ms": 100}`, false, 100 * time.Millisecond},
		{`{"owner": "a", "token": 7, "acquired_us": 4, "pid": 1, "notice_ms": 100}`, false, 100 * time.Millisecond},
		{`{}`, false, -1},
		{``, false, -1},
	} {
		e := decodeEvidence(c.column)
		if e.counts(row) != c.counts || e.notice() != c.notice {
			t.Errorf("%s: counts %t, notice %v; want %t, %v", c.column, e.counts(row), e.notice(), c.counts, c.notice)
		}
	}
}

// TestSettingsThatAServerDoesNotKnow: a server on Windows says -1 of keepalives that it does not take.
func TestSettingsThatAServerDoesNotKnow(t *testing.T) {
	if got, want := restorable("1h -1 -1 0 0 90s 1d 0"), "1h 0 0 0 0 90s 1d 0"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
