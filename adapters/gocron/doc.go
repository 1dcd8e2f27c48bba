// Package pgleasegocron lets the schedulers of github.com/go-co-op/gocron/v2 in several processes agree who runs a job.
//
// [NewLocker] is for jobs that any process may run: each run takes the lease of the job's name. [NewElector] is for one
// scheduler that runs all jobs: it holds one lease for as long as the process lives. A scheduler that has both asks the
// elector alone.
//
// # What happens when the lease is lost
//
// gocron asks before a run and says when the run has ended; it has no way to be told of a loss in between, so it neither
// ends the context of the job nor reports anything. The job goes on, and another process may begin the same one. A job for
// which that matters looks at its lease itself: [Locker.Lease] and [Elector.Lease] return it, once, when the job begins, and its Context ends with it,
// its Done closes, and its CheckTx guards writes to the same PostgreSQL.
package pgleasegocron
