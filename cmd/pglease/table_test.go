package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// A lease that was released has no last beat, in no format: what the row keeps there is its expiry, which may lie ahead.
func TestReleasedHasNoBeat(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		what           string
		beat, expires  time.Duration // from now
		held, released bool
		words          string
	}{
		{"held", -5 * time.Second, 25 * time.Second, true, false, "(5s ago)"},
		{"kept by a minimum hold", 50 * time.Second, 50 * time.Second, true, true, "released, kept until 2026-01-02T03:04:55Z"},
		{"free", -time.Second, -time.Second, false, true, "free: released 1s ago"},
		{"expired", -40 * time.Second, -10 * time.Second, false, false, "(40s ago)"},
	} {
		info := pglease.Info{Name: "job", AcquiredAt: now.Add(-time.Minute), HeartbeatAt: now.Add(tt.beat), ExpiresAt: now.Add(tt.expires), ObservedAt: now}
		var text, object bytes.Buffer
		if err := describe(&text, info); err != nil || !strings.Contains(text.String(), tt.words) || tt.released && strings.Contains(text.String(), "s ago)") {
			t.Errorf("%s: %v\n%s", tt.what, err, &text)
		}
		if err := writeJSON(&object, asJSON(info), false); err != nil {
			t.Fatal(err)
		}
		var row struct {
			Held, Released bool
			HeartbeatAt    *time.Time `json:"heartbeat_at"`
		}
		if err := json.Unmarshal(object.Bytes(), &row); err != nil || row.Held != tt.held || row.Released != tt.released || (row.HeartbeatAt == nil) != tt.released {
			t.Errorf("%s: %v %s", tt.what, err, &object)
		}
	}
}
