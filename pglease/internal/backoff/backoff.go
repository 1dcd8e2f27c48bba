// Package backoff computes jittered pauses. Jitter keeps processes that failed together from coming back together.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Exponential returns the pause before attempt n+1, after n failures in a row (n >= 1): base doubled n-1 times and
// limit at the most, of which a random part between a half and the whole.
func Exponential(n int, base, limit time.Duration) time.Duration {
	d := base
	for ; n > 1 && d < limit; n-- {
		d *= 2
	}
	d = min(d, limit)
	return d - rand.N(d/2+1)
}

// Stretch returns d and a random part of up to a quarter more, so that a poller never comes more often than once in d.
func Stretch(d time.Duration) time.Duration {
	return d + rand.N(d/4+1)
}
