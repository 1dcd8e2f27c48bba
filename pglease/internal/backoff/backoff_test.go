package backoff

import (
	"testing"
	"time"
)

func TestExponentialStaysWithinItsBounds(t *testing.T) {
	const base, limit = 100 * time.Millisecond, time.Second
	for n, whole := range map[int]time.Duration{1: base, 2: 2 * base, 3: 4 * base, 4: 8 * base, 5: limit, 1000: limit} {
		for range 200 {
			if d := Exponential(n, base, limit); d < whole/2-1 || d > whole {
				t.Fatalf("Exponential(%d) = %v, want between %v and %v", n, d, whole/2, whole)
			}
		}
	}
}

func TestStretchNeverShortens(t *testing.T) {
	for range 1000 {
		if d := Stretch(time.Second); d < time.Second || d > 1250*time.Millisecond {
			t.Fatalf("Stretch(1s) = %v", d)
		}
	}
}
