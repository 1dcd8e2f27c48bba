package pglease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/pglease/pglease-go/pglease/internal/redact"
	"github.com/pglease/pglease-go/pglease/internal/trust"
)

// A Client acquires leases and keeps them renewed. It may be used by several goroutines at once. Make one per process
// and database, and Close it.
type Client struct {
	backend  Backend
	store    any // tells the leases of this client from those of others in this process; see place
	redact   *redact.Redactor
	owner    string
	options  leaseOptions // the defaults as they were said: a lease's own options are laid over them
	defaults leaseConfig  // the same, complete
	attempts int
	base     time.Duration
	log      *zap.Logger
	observer Observer
	attempt  atomic.Int64    // numbers the attempts to acquire
	life     context.Context // ends when Close begins
	endLife  context.CancelFunc
	beats    context.Context // of the heartbeats: ends when Close has released everything
	endBeats context.CancelFunc
	zombies  zombies

	mu        sync.Mutex
	closeDone chan struct{} // closed when it has ended
	closed    bool
	active    int           // calls under way, and work done in the background for them
	idle      chan struct{} // closed when the client is closing and active has come to 0
	leases    map[*Lease]struct{}
	tasks     map[*task]struct{}
	lines     map[string]*line
	beating   chan struct{} // nil if no heartbeat goroutine runs; closed when it ends
	soon      *time.Timer   // starts it, if there are leases and it does not run
	before    trust.Instant // of the clocks, when soon was set
	wakeAt    time.Time     // when it looks at the leases next
	kick      chan struct{} // wakes it before
	purged    time.Time     // when it deleted old rows last
}

// New returns a client for the lease table in d, which may be a *sql.DB, a *sql.Conn, or a type that embeds one. It does
// no I/O, and the client never closes d. A given *sql.Conn belongs to the client until Close: open no transaction on it. In hybrid, a wait
// that its context cuts short ends the connection's session.
// d may be nil if WithBackend is given. A pool behind the pool (stdlib.OpenDBFromPool) hides its limit: tell the *sql.DB of it by
// SetMaxOpenConns, or the client may keep the last connection for itself.
//
// Where the driver prepares nothing by itself (lib/pq), the statements that are sent most stay prepared in the pool's sessions: in hybrid
// from the first, in table mode once a client has asked 32 times for names that it had asked for before. A client looks first, at two
// connections and with some 25 statements, whether each has a session of its own: in table mode in the background, when the pool has four
// connections to spare. Behind a pooler in transaction mode nothing is prepared, nor on a given *sql.Conn, or for a pool of one connection.
//
// Defaults: WithTTL 30 s, WithHeartbeatInterval TTL/3, WithSafetyMargin TTL/10 and 1 s at the most, WithPollInterval 1 s,
// WithMinHold 0, WithOwner the host's name, WithRetry 3 attempts from 100 ms, no logger, no observer, the table backend
// (WithSessionCheck and WithTakeoverDelay are for WithHybrid).
//
// The error, if any, names every option that is wrong; nothing is left behind.
func New(d DB, opts ...Option) (*Client, error) {
	o := clientOptions{attempts: defaultRetryAttempts, base: defaultRetryBase, sessionCheck: defaultSessionCheck}
	for _, opt := range opts {
		if opt == nil {
			return nil, errNilOption
		}
		opt.applyClient(&o)
	}
	errs := o.errs
	defaults, err := o.lease.config()
	errs = append(errs, err)
	owner, err := newOwner(o.owner)
	errs = append(errs, err)
	if o.zap != nil && o.slog != nil {
		errs = append(errs, errors.New("pglease: WithLogger and WithSlog: one of them is enough"))
	}
	if o.hybrid && o.backend != nil {
		errs = append(errs, errors.New("pglease: WithHybrid and WithBackend: one of them is enough"))
	}
	if isNil(d) && o.backend == nil {
		errs = append(errs, errors.New("pglease: New: the database is nil, and there is no WithBackend"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	r := redact.New(o.secrets...)
	c := &Client{
		backend:   o.backend,
		redact:    r,
		owner:     owner,
		attempts:  o.attempts,
		base:      o.base,
		log:       newLogger(o, r),
		observer:  o.observer,
		idle:      make(chan struct{}),
		closeDone: make(chan struct{}),
		leases:    make(map[*Lease]struct{}),
		tasks:     make(map[*task]struct{}),
		lines:     make(map[string]*line),
		kick:      make(chan struct{}, 1),
		purged:    time.Now(),
	}
	c.life, c.endLife = context.WithCancel(context.Background())
	c.beats, c.endBeats = context.WithCancel(context.Background())
	switch {
	case o.hybrid:
		h, err := newHybridBackend(newTableBackend(d, r, c.log), o)
		if err != nil {
			return nil, err
		}
		h.expectEnd, h.life = c.expectEnd, c.life
		c.backend = h
	case c.backend == nil:
		t := newTableBackend(d, r, c.log)
		t.prepares.inBackground = c.lookInBackground
		c.backend = t
	}
	if b := o.backend; b != nil && reflect.TypeOf(b).Comparable() {
		c.store = b
	}
	about := aboutThisProcess()
	maps.Copy(about, defaults.metadata)
	encoded := encodeMetadata(about)
	o.lease.metadata, defaults.metadata = about, about
	o.lease.encoded, defaults.encoded = encoded, encoded
	c.options, c.defaults = o.lease, defaults
	return c, nil
}

// aboutThisProcess is what the row says of its holder without being asked.
func aboutThisProcess() map[string]string {
	m := map[string]string{"pid": strconv.Itoa(os.Getpid()), "program": filepath.Base(os.Args[0])}
	if host, err := os.Hostname(); err == nil && unfit(host, maxName) == "" {
		m["host"] = host
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		m["version"] = info.Main.Version
	}
	if unfit(m["program"], maxName) != "" {
		delete(m, "program")
	}
	return m
}

// EnsureSchema creates the lease table where the connection's search_path puts new tables, or upgrades it, the five-column
// table of the Python package included. It does nothing and needs no right to create if the table is current. Any number of
// processes may call it at once, and workers may run meanwhile. It is given up after a minute, or when ctx ends. If it
// fails, nothing has changed.
//
// An index on a column that a heartbeat changes, such as the one on expires_at that the Python package makes, is left alone, and
// logged as a warning with the statement that drops it: it makes each heartbeat dearer, and the table grow.
//
// A table of that name that cannot be upgraded is an *UnsupportedError; a missing right is a *BackendError.
func (c *Client) EnsureSchema(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ensureTimeout)
	defer cancel()
	_, err := operate(ctx, c, "ensure schema", "", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.backend.EnsureSchema(ctx)
	})
	return err
}

// operate makes one call of the backend that concerns no lease of the client's own.
func operate[T any](ctx context.Context, c *Client, op, name string, f func(context.Context) (T, error)) (T, error) {
	if err := c.begin(); err != nil {
		var zero T
		return zero, err
	}
	defer c.end()
	return call(ctx, c, op, Zombie{Name: name, Kind: ZombieCall}, f, nil)
}

// begin counts a call that is under way, or returns ErrClosed.
func (c *Client) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.active++
	return nil
}

func (c *Client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active--
	if c.closed && c.active == 0 {
		close(c.idle)
	}
}

// Get reads the row of name, held or not: released rows are kept and found, and Expired() is true of them. ErrNotFound if
// there is none.
func (c *Client) Get(ctx context.Context, name string) (Info, error) {
	if err := checkName(name); err != nil {
		return Info{}, err
	}
	return operate(ctx, c, "get", name, func(ctx context.Context) (Info, error) { return c.backend.Get(ctx, name) })
}

// List reads the rows of held leases, in byte order of their names. Options: WithExpired, WithPrefix, WithLimit.
func (c *Client) List(ctx context.Context, opts ...ListOption) ([]Info, error) {
	var o listOptions
	for _, opt := range opts {
		if opt == nil {
			return nil, errNilOption
		}
		opt.applyList(&o)
	}
	if o.err != nil {
		return nil, o.err
	}
	return operate(ctx, c, "list", o.prefix, func(ctx context.Context) ([]Info, error) {
		return c.backend.List(ctx, o.prefix, o.limit, o.expired)
	})
}

// ForceRelease ends whatever term name is in, for an operator who knows that its holder is gone or must stop. It gives the
// row a new token and returns the term that it fenced. The holder learns of that at its next heartbeat, and may act until
// then; its CheckTx fails at once. With IfToken it refuses every other term, with a *HeldError. ErrNotFound if there is no
// row. If a transaction that passed CheckTx is open, it waits for 5 s at the most and changes nothing; the error names it.
func (c *Client) ForceRelease(ctx context.Context, name string, opts ...ForceOption) (Info, error) {
	if err := checkName(name); err != nil {
		return Info{}, err
	}
	var o forceOptions
	for _, opt := range opts {
		if opt == nil {
			return Info{}, errNilOption
		}
		opt.applyForce(&o)
	}
	info, err := operate(ctx, c, "force release", name, func(ctx context.Context) (Info, error) {
		return c.backend.ForceRelease(ctx, name, o.ifToken)
	})
	if err == nil {
		c.log.Warn("lease released by force", zap.String("name", name), zap.String("from", info.Owner), zap.Int64("token", info.Token))
		c.wakeWaiters(name)
	}
	return info, err
}

// deleteBatch is how many rows one statement deletes at the most.
const deleteBatch = 1000

// DeleteExpired deletes rows that expired longer than olderThan ago, in batches, and returns how many. Tokens go on rising
// for names that come back, if olderThan is longer than any attempt takes (10 s will do): a grant that is under way while another
// term of the name begins, ends and is deleted would have the lower token. After an error, or when ctx ends, what was deleted
// stays deleted. Clients that hold leases do this by themselves once an hour for rows that expired a week ago.
func (c *Client) DeleteExpired(ctx context.Context, olderThan time.Duration) (int64, error) {
	if olderThan < 0 {
		return 0, fmt.Errorf("pglease: DeleteExpired(%v): the duration cannot be negative", olderThan)
	}
	var total int64
	for {
		n, err := operate(ctx, c, "delete expired", "", func(ctx context.Context) (int64, error) {
			return c.backend.DeleteExpired(ctx, olderThan, deleteBatch)
		})
		total += n
		if err != nil || n < deleteBatch {
			return total, err
		}
	}
}
