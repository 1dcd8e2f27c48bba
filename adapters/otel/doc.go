// Package pgleaseotel tells OpenTelemetry what happens to the leases of a client: metrics and spans.
//
// An [Observer] is given to the client with pglease.WithObserver. Names and attributes follow the semantic conventions 1.43.0;
// what they have no name for begins with "pglease.".
//
// # Metrics
//
//	db.client.operation.duration  s          acquire, release and withdraw, by db.operation.name
//	pglease.wait.duration         s          how long Acquire and AcquireAny waited
//	pglease.hold.duration         s          for how long leases had been held when they ended, by pglease.end: released, lost
//	pglease.lease.count           {lease}    leases that this process holds now
//	pglease.lease.renewals        {renewal}  one for each lease and attempt; failures have an error.type
//	pglease.lease.losses          {lease}    by pglease.loss.reason: expired, gone, session
//	pglease.zombies               {zombie}   by pglease.zombie.kind: heartbeat, task, call
//
// Attempts and waits have pglease.outcome: granted, or held, which is an answer and no error. Failures have error.type instead:
// the SQLSTATE, which is in db.response.status_code too; held, lost, no_schema, unsupported, closed, invalid_name, timeout, canceled;
// or _OTHER. A renewal has no duration, since one statement renews many leases.
//
// # Spans
//
// "acquire pglease_leases", "release pglease_leases" and "withdraw pglease_leases", of kind CLIENT, and "wait for lease" and
// "lease lost", of kind INTERNAL, are children of the span in the context of the call, if there is one, and made when the thing is
// over. Heartbeats have no caller: one that failed makes a span "renew pglease_leases" of its own, one that succeeded only with
// [WithRenewalSpans].
//
// # Cardinality
//
// Metrics have no lease name, because the number of names may have no bound; [WithNameAttribute] adds it, or what you make of
// it. Spans have it always, in pglease.lease.name, and the token in pglease.lease.token.
package pgleaseotel
