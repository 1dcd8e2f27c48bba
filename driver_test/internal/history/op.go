package history

import "time"

// An Action is what a process did.
type Action string

// The actions on a lease.
const (
	Try     Action = "try"     // TryAcquire
	Acquire Action = "acquire" // Acquire, and what stands on it
	Renew   Action = "renew"
	Release Action = "release"
	Check   Action = "check"  // CheckTx
	Commit  Action = "commit" // of the transaction that began with a Check
	Get     Action = "get"
	Force   Action = "force"  // ForceRelease
	Delete  Action = "delete" // of the row, by an operator
	Take    Action = "take"   // acquire, by a Python worker, whose terms have tokens of their own, below 0
)

// What a process notes beside its operations.
const (
	Hello    Action = "hello"    // its first line: Who is set
	Look     Action = "look"     // Err was asked
	Distrust Action = "distrust" // Done has closed, or a Python worker's time has run out
	Stall    Action = "stall"    // the process did not run from Call to Return
	Bye      Action = "bye"      // its last line: Goroutines is set
)

// An Outcome is how an operation ended.
type Outcome string

const (
	Unknown Outcome = ""     // it may or may not have taken effect
	OK      Outcome = "ok"   // it has: granted, renewed, released, current, committed
	Held    Outcome = "held" // somebody else has the name
	Gone    Outcome = "gone" // the server said that the term is over
	No      Outcome = "no"   // it has not taken effect, for a reason that says nothing of the lease
)

// An Op is one line of a file. Times are nanoseconds of the common clock.
type Op struct {
	Client  int     `json:"client"`
	ID      int64   `json:"id,omitempty"` // of an operation; unique in its process
	Action  Action  `json:"action"`
	Call    int64   `json:"call"`
	Return  int64   `json:"return,omitempty"` // 0: this is the line from before the call
	Outcome Outcome `json:"outcome,omitempty"`
	Name    string  `json:"name,omitempty"`
	Token   int64   `json:"token,omitempty"` // of the term that it is about, or that was seen
	Owner   string  `json:"owner,omitempty"`
	Error   string  `json:"error,omitempty"`

	Start    int64 `json:"start,omitempty"`    // of a grant: the attempt that was granted began no sooner
	Deadline int64 `json:"deadline,omitempty"` // of trust, as far as it is known by then
	Live     bool  `json:"live,omitempty"`     // of Get: the term had not expired
	Seq      int64 `json:"seq,omitempty"`      // of Commit: the number of the write

	Who        *Who `json:"who,omitempty"`
	Goroutines int  `json:"goroutines,omitempty"` // more at the end than at the beginning
}

// Who is what kind of client a process is.
type Who struct {
	Driver  string        `json:"driver"`
	Backend string        `json:"backend"` // "table", "hybrid" or "python"
	Route   string        `json:"route"`   // "direct" or "proxy"
	TTL     time.Duration `json:"ttl"`
}

// from is the earliest instant at which o may have taken effect.
func (o *Op) from() int64 { return max(o.Call, o.Start) }

// grants reports whether o began a term of ours.
func (o *Op) grants() bool { return (o.Action == Try || o.Action == Acquire) && o.Outcome == OK }

// A Fault is what the director did. Times are nanoseconds of the common clock.
type Fault struct {
	Kind   Kind   `json:"kind"`
	At     int64  `json:"at"`               // from just before
	Until  int64  `json:"until,omitempty"`  // until just after; 0: the end of the run
	Client int    `json:"client,omitempty"` // 0: all
	Name   string `json:"name,omitempty"`   // the lease it was about
	Note   string `json:"note,omitempty"`
}

// A Kind is a kind of fault.
type Kind string

// The faults.
const (
	Kill         Kind = "kill -9"
	Stop         Kind = "stop within the TTL"
	LongStop     Kind = "stop beyond the TTL"
	Terminate    Kind = "pg_terminate_backend"
	Freeze       Kind = "the server hangs"
	Crash        Kind = "crash and restart of the server"
	Promote      Kind = "promotion of a synchronous standby"
	PromoteAsync Kind = "promotion of an asynchronous standby"
	Silence      Kind = "partition"
	HalfOpen     Kind = "half-open: answers do not arrive"
	Latency      Kind = "latency"
	Reset        Kind = "connection reset"
	Drain        Kind = "pool exhausted"
	Forward      Kind = "server's clock forward, beyond the margin"
	Nudge        Kind = "server's clock forward, within the margin"
	Back         Kind = "server's clock back"
	Edit         Kind = "operator expires a row"
	Remove       Kind = "operator deletes a row"
	ForceOut     Kind = "ForceRelease"
	Stalled      Kind = "a process notices that it was not run"
)

// covers reports whether f was under way at some instant between from and to.
func (f *Fault) covers(from, to int64) bool { return f.At <= to && (f.Until == 0 || f.Until >= from) }

// A Write is a row that guarded writes left on the server, one for each that was committed.
type Write struct {
	Name      string
	Seq       int64 // one more than the number it read
	Token     int64
	ReadToken int64 // that of the write before, as it was read
	Client    int
	ID        int64 // of the Commit
}
