package trust

import (
	"testing"
	"time"
)

// C4, C5: the deadline counts from the attempt's start, and either clock ends it.
func TestDeadlinePassesOnEitherClock(t *testing.T) {
	start := Instant{mono: time.Hour, wall: int64(1000 * time.Hour)}
	deadline := Deadline(start, 30*time.Second, time.Second)
	tests := []struct {
		name       string
		mono, wall time.Duration // since start
		left       time.Duration
	}{
		{"at the start", 0, 0, 29 * time.Second},
		{"both run", 10 * time.Second, 10 * time.Second, 19 * time.Second},
		{"just before", 29*time.Second - 1, 29*time.Second - 1, 1},
		{"at the deadline", 29 * time.Second, 29 * time.Second, 0},
		{"suspended: only the wall clock ran", time.Second, time.Hour, 29*time.Second - time.Hour},
		{"the wall clock was set back", 29 * time.Second, -time.Hour, 0},
		{"the wall clock was set back, time is left", 9 * time.Second, -time.Hour, 20 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := Instant{mono: start.mono + tt.mono, wall: start.wall + int64(tt.wall)}
			if got := deadline.Until(now); got != tt.left {
				t.Errorf("Until = %v, want %v", got, tt.left)
			}
			if got, want := deadline.After(now), tt.left > 0; got != want {
				t.Errorf("After = %v, want %v", got, want)
			}
		})
	}
}

func TestSleptIsTheDifferenceOfTheClocks(t *testing.T) {
	before := Instant{mono: 5 * time.Second, wall: int64(time.Hour)}
	for _, slept := range []time.Duration{0, time.Minute, -time.Minute} {
		now := Instant{mono: 7 * time.Second, wall: int64(time.Hour + 2*time.Second + slept)}
		if got := now.Slept(before); got != slept {
			t.Errorf("Slept = %v, want %v", got, slept)
		}
	}
}

func TestMarginIsATenthAndASecondAtMost(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		time.Minute:            time.Second,
		30 * time.Second:       time.Second,
		5 * time.Second:        500 * time.Millisecond,
		150 * time.Millisecond: 15 * time.Millisecond,
	} {
		if got := Margin(ttl); got != want {
			t.Errorf("Margin(%v) = %v, want %v", ttl, got, want)
		}
	}
}
