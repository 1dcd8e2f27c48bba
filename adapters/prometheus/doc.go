// Package pgleaseprometheus counts and measures what happens to the leases of a client, for Prometheus.
//
// A [Collector] is given to the client with pglease.WithObserver, and registered. It exports:
//
//	pglease_acquires_total{outcome}            attempts to acquire: granted, held by somebody, error
//	pglease_acquire_duration_seconds{outcome}  how long they took
//	pglease_wait_duration_seconds{outcome}     how long Acquire and AcquireAny waited: granted, held (given up), error
//	pglease_renewals_total{outcome}            renewals, one for each lease: renewed, lost, error (it is tried again)
//	pglease_releases_total{outcome}            releases: released, lost, error (the outcome is unknown)
//	pglease_losses_total{reason}               leases lost: expired, gone, session
//	pglease_hold_duration_seconds{end}         for how long leases had been held: released, lost
//	pglease_leases_held                        leases that this process holds now
//	pglease_withdrawals_total{outcome}         grants that nobody waited for any more: withdrawn, error
//	pglease_zombies_total{kind}                things that should have ended and have not for 30 s: heartbeat, task, call
//
// A loss is worth an alert, and so is any zombie; renewals with outcome="error" come before losses.
//
// No series has the name of a lease, because the number of names may have no bound. [WithNameLabel] adds it, or what you
// make of it, to each of them.
package pgleaseprometheus
