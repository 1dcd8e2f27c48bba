// Package trust is the arithmetic of how long a client may believe in its lease. It does no I/O and starts nothing.
package trust

import "time"

// An Instant is a moment on two clocks of this machine. The monotonic one is never set back or forward, but may stand
// still while the machine is suspended; the wall clock goes on, but may be set. A deadline on both has passed as soon
// as it has on either.
type Instant struct {
	mono time.Duration // since base
	wall int64         // nanoseconds of Unix time
}

var base = time.Now()

// At returns the Instant of t, which must be a reading of time.Now, or the sum of one and a duration.
func At(t time.Time) Instant {
	return Instant{mono: t.Sub(base), wall: t.UnixNano()}
}

// Now returns the present Instant.
func Now() Instant { return At(time.Now()) }

// Add returns the instant d later on both clocks.
func (i Instant) Add(d time.Duration) Instant {
	return Instant{mono: i.mono + d, wall: i.wall + int64(d)}
}

// Until returns how long it is from now to the instant, by the clock on which that is shorter. It is 0 or less when
// the instant has passed.
func (i Instant) Until(now Instant) time.Duration {
	return min(i.mono-now.mono, time.Duration(i.wall-now.wall))
}

// After reports whether the instant is later than other on both clocks.
func (i Instant) After(other Instant) bool { return i.Until(other) > 0 }

// Slept reports by how much more the wall clock has advanced than the monotonic one from before to the instant: the
// length of a suspend, or by how much the wall clock was set forward. It is negative if that was set back.
func (i Instant) Slept(before Instant) time.Duration {
	return time.Duration(i.wall-before.wall) - (i.mono - before.mono)
}

// Deadline is the rule itself: the instant up to which a client may believe in a lease, given when its last successful
// attempt started. The server began the same TTL later than that, so it gives the lease to nobody else before.
func Deadline(start Instant, ttl, margin time.Duration) Instant {
	return start.Add(ttl - margin)
}

// Margin is the safety margin for a TTL if none was set: a tenth of it, and a second at the most.
func Margin(ttl time.Duration) time.Duration { return min(time.Second, ttl/10) }
