package pglease

import (
	"context"
	"database/sql"
	"time"
)

// A Term names one grant, from acquire to release or loss. Every write is scoped to it.
type Term struct {
	Name  string
	Owner string
	Token int64
}

// A Request is one attempt to acquire a lease.
type Request struct {
	Name     string
	Others   []string // names that would do as well; Withdraw looks for them too
	Owner    string
	Attempt  int64 // distinguishes the attempts of one owner
	TTL      time.Duration
	Metadata map[string]string

	encoded  string       // Metadata as JSON, or ""
	reserved *reservation // what AcquireAll has reserved for it, or nil
}

// names returns all that would do.
func (r Request) names() []string { return append([]string{r.Name}, r.Others...) }

// A Grant is the beginning of a term.
type Grant struct {
	Term       Term
	AcquiredAt time.Time // by the authority's clock, UTC
	ExpiresAt  time.Time
	// Start is a reading of the local clock from before the attempt could have been granted: trust counts from it.
	Start time.Time
	// Session is nil, or ends, with a cause, when the session that holds the term has: the lease is lost then.
	Session context.Context
}

// A Renewal asks for one term to be renewed.
type Renewal struct {
	Term Term
	TTL  time.Duration
}

// A RenewalState is the answer for one term.
type RenewalState int

// What became of a renewal.
const (
	RenewalLocked       RenewalState = iota // nothing was done, and the term may be current: a failed beat, no more
	RenewalDone                             // renewed
	RenewalGone                             // the term is over
	RenewalSessionEnded                     // the session that held the term is, or is not known to be, the same any more
)

// A RenewalResult is the answer for one term.
type RenewalResult struct {
	State     RenewalState
	ExpiresAt time.Time // if renewed; by the authority's clock, UTC
	Cause     error     // if not, and there is more to say
}

// patient is a backend that can wait for a lease to become free, better than by asking again and again.
type patient interface {
	// acquireWaiting makes an attempt as Acquire does, and waits a few seconds at the most if it has to. waited reports that
	// it has, so that the next attempt may follow at once.
	acquireWaiting(ctx context.Context, r Request) (g Grant, waited bool, err error)
}

// chooser is a backend that can choose a free one of several names in one round trip.
type chooser interface {
	acquireAny(ctx context.Context, r Request) (Grant, error)
}

// reserver is a backend whose leases cost connections, of which there may not be enough.
type reserver interface {
	// reserve waits until n connections can be had at once, or says why they cannot.
	reserve(ctx context.Context, n int) (*reservation, error)
}

// A Backend keeps leases. It is the authority: its clock alone decides about expiry. Clients see to trust, heartbeats,
// waiting and the signals of a loss; a backend makes single attempts. Package pgleasetest has the suite that every
// backend must pass. Experimental: the interface may change in any v0 release.
//
// All methods may be called by several goroutines at once. They return when ctx ends, as far as the driver does. An
// error other than those named here is a *BackendError; after one, it is unknown whether the call took effect.
type Backend interface {
	// EnsureSchema makes the store ready, or does nothing if it is.
	EnsureSchema(ctx context.Context) error

	// Acquire makes one attempt to begin a term, whose token is higher than any before for the name. It does not wait
	// for the holder: *HeldError if there is one.
	Acquire(ctx context.Context, r Request) (Grant, error)

	// Withdraw ends the term that attempt r began, if it did, and reports whether it had. It is called when the answer
	// of Acquire never came.
	Withdraw(ctx context.Context, r Request) (bool, error)

	// Renew prolongs each term that is current, to its TTL from now, and answers for each in the order given. An
	// expired term is not renewed, even if nobody has taken the name yet, nor is a released one.
	Renew(ctx context.Context, rs []Renewal) ([]RenewalResult, error)

	// Release ends a term: others may have the name at once, or when minHold has passed since the term began. ErrLost
	// if the term was over before.
	Release(ctx context.Context, t Term, minHold time.Duration) error

	// Forget tells that a term was lost and will not be released. It does no I/O.
	Forget(t Term)

	// Check proves inside tx that t is current and lets nobody else have the name before tx ends; ErrLost if it is not.
	Check(ctx context.Context, tx *sql.Tx, t Term) error

	// CheckQuery returns what Check sends: a statement that returns one row of one bool.
	CheckQuery(t Term) (query string, args []any)

	// Get reads one row; ErrNotFound. Released rows are found too.
	Get(ctx context.Context, name string) (Info, error)

	// List reads the rows whose names begin with prefix, in byte order of the names, at most limit if that is not 0;
	// expired ones only if asked for.
	List(ctx context.Context, prefix string, limit int, withExpired bool) ([]Info, error)

	// ForceRelease ends whatever term name is in, with a new token, and returns the term that it ended. If ifToken is
	// not nil, it refuses any other with a *HeldError. ErrNotFound.
	ForceRelease(ctx context.Context, name string, ifToken *int64) (Info, error)

	// DeleteExpired deletes up to limit rows that expired longer than olderThan ago, and returns how many.
	DeleteExpired(ctx context.Context, olderThan time.Duration, limit int) (int64, error)

	// Close gives up what the backend holds beside leases, such as a kept connection. All terms have ended by then.
	Close(ctx context.Context) error
}
