// Package pglease lets many processes agree, through the PostgreSQL they already have, that one of them does a thing: a cron
// job, a migration, the work of a partition, leadership.
//
// # Start
//
// A [Client] is made with [New] from a *sql.DB or a *sql.Conn of any driver; [Client.EnsureSchema] makes the table. Whoever
// needs no more than to try and to release needs no more of this page than this section:
//
//	lease, err := client.TryAcquire(ctx, "nightly-report")
//	if errors.Is(err, pglease.ErrHeld) {
//		return nil // another process has it; err says which
//	}
//	if err != nil {
//		return err
//	}
//	defer lease.Release(ctx)
//	return report(lease.Context()) // it ends if the lease is lost
//
// The lease is renewed until it is released. Shorter, and with the panics and losses seen to, is [Client.Do], which runs a
// function under the lease, and skips it or waits if the lease is held; [Client.Singleton] wraps a function in that way once.
// [Client.Acquire] waits, [Client.TryAcquireAny] and [Client.AcquireAny] claim one name of many, [Client.AcquireAll] takes all
// of them. [Client.Close] ends everything in order.
//
// There are two backends: table (a row with a TTL, renewed by heartbeats; works through every pooler) and hybrid
// ([WithHybrid]: a session's advisory lock beside the row; hands over at once).
//
// # Leader
//
// [Client.Lead] runs a function whenever this process leads, for as long as the process lives:
//
//	return client.Lead(ctx, "scheduler", func(ctx context.Context, l *pglease.Lease) error {
//		return schedule(ctx) // returns when ctx ends: with the program, or with the lease
//	})
//
// After a loss it campaigns again, once the function has returned; the function resigns by returning. [Client.Go] with
// [Campaign] does the same in the background, and its [Task] says whether this process leads now. A leader that crashes is
// followed when its TTL ends, with hybrid at once. Between the end of its trust and the moment in which it looks, a leader
// that was paused may act beside the next one: what must not be done twice is guarded, see below.
//
// # Words
//
// A lease is the exclusive right to a name, for a time. A term is one grant of it, from acquire to release or loss; it is
// identified by its name, owner and token, and never resurrected. The token is the fencing token of the term: it strictly
// increases per name. The TTL is how long the server keeps an unrenewed lease; a heartbeat renews it. The trust deadline is
// the local instant, on the monotonic and on the wall clock, up to which this process may believe it holds: the start of
// the last successful attempt, plus the TTL, less the safety margin. A lease is held, then lost or released for ever.
//
// # What is promised
//
//  1. The database is the authority. Its clock alone decides about expiry. Local time only limits how long a client trusts
//     its last success.
//  2. At most one trusted holder. A client stops trusting its lease before the server may give it to another. A timer that
//     depends on no I/O sees to it: a driver stuck on a dead connection delays nothing. After a suspend of the machine the
//     wall clock ends the trust, even if the monotonic clock stood still. A wall clock that is set forward ends it, too.
//     Hybrid's early takeover adds one assumption: a live holder hears of its session's end within the bound that it wrote
//     into its row. If something other than its own death ends the session while it is paused or cut off for longer than
//     that, it may trust until its deadline; CheckTx still fences, and WithTakeoverDelay(TTL) removes the case.
//  3. Every write to a row is scoped to its term, and renewing needs the row to be unexpired: expired is lost, even if
//     nobody has taken it yet.
//  4. A loss is told three ways from one source, in this order: Err is set and Done closes; the lease's context is cancelled
//     with the cause *LostError; WithOnLost's function runs once, outside every lock, on its own goroutine. Err, and Err of
//     the context, also compare the clocks when they are called, so that a process that wakes from a stop does not see a
//     live lease before its timers run.
//  5. A lost or expired term can never release, renew or delete its successor.
//  6. Release ends the term: Done closes, Err is ErrReleased, OnLost does not run. A heartbeat still under way cannot revive
//     it. It works when its context is already done (then on a fresh 5 s), is idempotent, and leaves nothing behind.
//  7. [Lease.CheckTx] closes, for writes to the same PostgreSQL, the hole that no lease can: a process that was paused or cut
//     off may wake after its deadline, and act. Inside the caller's transaction it proves the term current and blocks every
//     takeover until that transaction ends, without blocking the lease's own heartbeats. For any other system, pass on
//     [Lease.Token].
//  8. Tokens increase over release, expiry, forced release, deletion of the row and failover, as long as the server's clock
//     has not gone back past the last grant.
//  9. Errors and logs never contain a password, whatever form the DSN had.
//
// # Guarded writes
//
// CheckTx is the first statement of the transaction; any error of it means that the transaction is over. A rollback to an
// earlier savepoint undoes the fence. It is for a few concurrent transactions a lease, not thousands: each adds members to
// the server's multixacts. Above READ COMMITTED a row shows the age of the snapshot: there the key-share lock and the token
// are the proof, the expiry is judged by the handle, before and after the statement, and 40001 means: retry the
// transaction. PREPARE TRANSACTION keeps the fence until COMMIT PREPARED.
//
// # Testing
//
// Package pgleasetest has a backend in memory for tests of one's own, with expiry, loss and outages at the tester's command:
//
//	client, err := pglease.New(nil, pglease.WithBackend(pgleasetest.NewMemory()))
//
// # Limits
//
// Excluded from what is promised: the server's clock stepping forward, or a promoted server's clock being ahead, by more than
// the safety margin; a failover that loses commits (use synchronous replication, with synchronous_commit on);
// synchronous_commit=off; [Client.ForceRelease] and an operator's edits (the old holder learns at its next heartbeat; CheckTx
// refuses at once); Python workers whose clock differs from the server's by more than the margin.
//
// A lease costs two round trips and two flushes to disk (the first of a hybrid client some 25 statements more, see [New]): it is for work that
// takes longer than that. Names are compared byte
// for byte. Leases exist per database and search_path; in hybrid the advisory key is the database's, so a name that is
// held in one schema cannot be had in another meanwhile. A context without a deadline waits as long as the pool does, or 5 s after a
// statement that had no answer in time. A given
// *sql.Conn belongs to the client until Close; a transaction opened on it makes acquires fail, and heartbeats.
package pglease
