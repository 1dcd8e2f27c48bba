// Package history says whether what many processes did with leases was right: it reads what they wrote down while they did
// it, and checks it against the contract (design section 3, pglease/doc.go).
//
// # What is written down
//
// Each process writes a file of lines, one [Op] each, and stamps them with one clock that all processes of the machine
// share. An operation is written twice: before its call, and with its outcome. If a process is killed in between, the
// outcome is unknown. The director of a run writes down which [Fault] it caused, and when.
//
// # What is checked
//
//   - [Linear]: the lease of each name behaves as one object: there is an order of all operations, in keeping with real
//     time, in which each answer is right.
//   - [Tokens]: a grant has a higher token than each grant that was over before it began.
//   - [Writes]: guarded writes are never interleaved, lost, or made in a term that has a successor.
//   - [Trust]: no two processes trust that they hold a name at the same time, and none beyond its deadline.
//   - [End]: nothing is left when all have ended.
//
// # What is counted apart
//
// What section 3.8 of the contract excludes, and the early takeover of 3.2, is no violation. A checker excuses something
// only if the director has written down a fault that explains it, and counts it under the name of that reason.
//
// # When trust ends
//
// A process trusts its lease from the return of the acquire until it could first have known better: it calls Release, Done
// closes, or the deadline passes, whichever is first. The last needs no line in a file: a process that is stopped can
// write none, and asks nothing either; by 3.4 the first thing it sees on waking is the loss. So its trust has ended at
// min(the time it wrote down, its last deadline on the common clock). That this is so, and not only promised, is checked:
// processes look at Err again and again, and a look that finds nothing after the deadline is a violation. The trust of a
// process that is killed ends then.
package history
