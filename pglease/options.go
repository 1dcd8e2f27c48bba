package pglease

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
)

// The defaults of a lease, and of a client.
const (
	DefaultTTL          = 30 * time.Second
	DefaultPollInterval = time.Second

	defaultRetryAttempts = 3
	defaultRetryBase     = 100 * time.Millisecond
	defaultSessionCheck  = time.Second

	minDuration = time.Millisecond          // the shortest TTL, interval or margin
	maxDuration = 10 * 365 * 24 * time.Hour // the longest: neither Go's nor PostgreSQL's times overflow
)

// An Option configures a Client; see New.
type Option interface{ applyClient(*clientOptions) }

// A GoOption configures Client.Go. Every DoOption is one.
type GoOption interface{ applyGo(*goOptions) }

// A DoOption configures Client.Do and Client.Singleton. Every AcquireOption is one.
type DoOption interface {
	GoOption
	applyDo(*doOptions)
}

// An AcquireOption configures one acquire.
type AcquireOption interface {
	DoOption
	applyLease(*leaseOptions)
}

// A SharedOption may be given to New, as the default of a client's leases, and to a single acquire.
type SharedOption interface {
	Option
	AcquireOption
}

type clientOptions struct {
	lease         leaseOptions
	owner         string
	backend       Backend
	hybrid        bool
	sessionCheck  time.Duration
	takeoverDelay *time.Duration
	observer      Observer
	zap           *zap.Logger
	slog          *slog.Logger
	secrets       []string
	attempts      int
	base          time.Duration
	errs          []error
}

// leaseOptions are what the caller said; nil and 0 stand for "not said", since a default may depend on another option.
type leaseOptions struct {
	ttl, beat, margin, poll *time.Duration
	minHold                 time.Duration
	metadata                map[string]string
	encoded                 string // metadata as JSON; "" if they have changed since
	onLost                  func(*Lease, error)
}

// A waiting says what an acquire does if the lease is held.
type waiting int

const (
	waitDefault waiting = iota // return ErrHeld
	waitSkip                   // return nil
	waitFor                    // wait, for doOptions.limit at most if that is not 0
)

type doOptions struct {
	lease leaseOptions
	wait  waiting
	limit time.Duration
	errs  []error
}

type goOptions struct {
	doOptions
	campaign bool
}

type sharedOption func(*leaseOptions)

func (f sharedOption) applyClient(o *clientOptions) { f(&o.lease) }
func (f sharedOption) applyLease(o *leaseOptions)   { f(o) }
func (f sharedOption) applyDo(o *doOptions)         { f(&o.lease) }
func (f sharedOption) applyGo(o *goOptions)         { f(&o.lease) }

type clientOption func(*clientOptions)

func (f clientOption) applyClient(o *clientOptions) { f(o) }

type doOption func(*doOptions)

func (f doOption) applyDo(o *doOptions) { f(o) }
func (f doOption) applyGo(o *goOptions) { f(&o.doOptions) }

// WithTTL sets how long the server keeps a lease that is not renewed, 1 ms to 10 years. Default DefaultTTL. A short one is handed over
// sooner after a crash, a long one survives a longer outage of the database.
func WithTTL(d time.Duration) SharedOption {
	return sharedOption(func(o *leaseOptions) { o.ttl = &d })
}

// WithHeartbeatInterval sets how often a lease is renewed. Default a third of the TTL. It must be shorter than the TTL
// less the safety margin.
func WithHeartbeatInterval(d time.Duration) SharedOption {
	return sharedOption(func(o *leaseOptions) { o.beat = &d })
}

// WithSafetyMargin sets how long before its TTL ends a lease is given up. Default a tenth of the TTL, 1 s at the most.
// It covers the drift of this machine's clock against the server's during one TTL, and the delay of timers.
func WithSafetyMargin(d time.Duration) SharedOption {
	return sharedOption(func(o *leaseOptions) { o.margin = &d })
}

// WithMinHold keeps the name taken until d after its term began even if it is released sooner, so that a quick job does
// not run again on a machine whose clock is a little behind. Default 0. After a crash the TTL counts alone.
func WithMinHold(d time.Duration) SharedOption {
	return sharedOption(func(o *leaseOptions) { o.minHold = d })
}

// WithOnLost has f called when a lease is lost, once, on a goroutine of its own, after Done is closed and the lease's
// context is cancelled. The error is the *LostError. It may call any method of the lease and the client. A panic of f is
// recovered and logged. It is not called for a lease that was released.
func WithOnLost(f func(l *Lease, err error)) SharedOption {
	return sharedOption(func(o *leaseOptions) { o.onLost = f })
}

// WithMetadata adds m to what the row says of its holder, for people to read. Given for a client and for an acquire,
// both are added. Keys and values are UTF-8 without NUL.
func WithMetadata(m map[string]string) SharedOption {
	m = maps.Clone(m)
	return sharedOption(func(o *leaseOptions) {
		merged := maps.Clone(o.metadata)
		if merged == nil {
			merged = make(map[string]string, len(m))
		}
		maps.Copy(merged, m)
		o.metadata, o.encoded = merged, ""
	})
}

// WithPollInterval sets how long a waiter sleeps between two looks at a held lease; up to a quarter more, at random. It
// looks sooner when the lease can expire sooner, and at once when it is released in this process. Default
// DefaultPollInterval.
func WithPollInterval(d time.Duration) SharedOption {
	return sharedOption(func(o *leaseOptions) { o.poll = &d })
}

// WithOwner sets who holds the leases of a client, for people to read. Default the host's name. The owner in the row is
// this, a hyphen and 8 random hex digits, new for each client.
func WithOwner(owner string) Option {
	return clientOption(func(o *clientOptions) {
		o.owner = owner
		if owner == "" {
			o.errs = append(o.errs, errors.New("pglease: WithOwner: the owner is empty"))
		}
	})
}

// WithBackend keeps the leases in b instead of the lease table of the client's database.
func WithBackend(b Backend) Option {
	return clientOption(func(o *clientOptions) {
		o.backend = b
		if isNil(b) {
			o.errs = append(o.errs, errors.New("pglease: WithBackend: the backend is nil"))
		}
	})
}

// WithHybrid holds each lease by a session's advisory lock, on a connection of the pool that is pinned for it, and by its row.
// When the holder releases it, a waiter has it within milliseconds; when the holder dies or its connection drops, within 0.2 s with pgx and
// 1.2 s with a driver that cannot wait for the server (WithTakeoverDelay, WithSessionCheck), instead of the TTL. A connection
// a lease is the price, and with such a driver a ping a second for each. It needs a direct connection, or a pooler in session mode, to a primary; anything else is refused
// with an *UnsupportedError by the first acquire.
func WithHybrid() Option {
	return clientOption(func(o *clientOptions) { o.hybrid = true })
}

// WithSessionCheck sets how often a hybrid holder pings its session, if its driver has no way to wait for the server. Default
// 1 s. With pgx nothing is pinged.
func WithSessionCheck(d time.Duration) Option {
	return clientOption(func(o *clientOptions) {
		o.sessionCheck = d
		if d < minDuration {
			o.errs = append(o.errs, fmt.Errorf("pglease: WithSessionCheck(%v): at least %v is needed", d, minDuration))
		}
	})
}

// WithTakeoverDelay sets within which time a hybrid holder promises, in its row, to notice that its session has ended; a successor waits for
// at least so long, whatever its own option, before it takes the lease of a dead session. Default 100 ms with pgx, the session check and 100 ms with
// other drivers. 0 is for holders that only their own death can part from their session; the TTL rules early takeover out.
func WithTakeoverDelay(d time.Duration) Option {
	return clientOption(func(o *clientOptions) {
		o.takeoverDelay = &d
		if d < 0 {
			o.errs = append(o.errs, fmt.Errorf("pglease: WithTakeoverDelay(%v): it cannot be negative", d))
		}
	})
}

// WithLogger has the client log to l: failed renewals and zombies as warnings, losses as errors, the rest for debugging.
// Passwords are replaced. Default silence.
func WithLogger(l *zap.Logger) Option {
	return clientOption(func(o *clientOptions) {
		o.zap = l
		if l == nil {
			o.errs = append(o.errs, errors.New("pglease: WithLogger: the logger is nil"))
		}
	})
}

// WithSlog is WithLogger for a logger of the standard library.
func WithSlog(l *slog.Logger) Option {
	return clientOption(func(o *clientOptions) {
		o.slog = l
		if l == nil {
			o.errs = append(o.errs, errors.New("pglease: WithSlog: the logger is nil"))
		}
	})
}

// WithSecrets has the given texts replaced in every log entry and error of the client, beside what is recognised as a
// password by its surroundings. Texts of fewer than 4 characters are refused by New.
func WithSecrets(secrets ...string) Option {
	return clientOption(func(o *clientOptions) {
		for _, s := range secrets {
			if utf8.RuneCountInString(s) < 4 {
				o.errs = append(o.errs, errors.New("pglease: WithSecrets: a secret of fewer than 4 characters cannot be told from other text"))
				continue
			}
			o.secrets = append(o.secrets, s)
		}
	})
}

// WithObserver has obs told of what happens to the client's leases.
func WithObserver(obs Observer) Option {
	return clientOption(func(o *clientOptions) {
		o.observer = obs
		if isNil(obs) {
			o.errs = append(o.errs, errors.New("pglease: WithObserver: the observer is nil"))
		}
	})
}

// WithRetry sets how often a heartbeat is tried, and the pause after the first failure; the pause doubles each time, and
// is shortened by up to a half at random and to what is left of the trust. Default 3 attempts and 100 ms. A waiter that has had
// no answer of the database yet gives up after as many attempts, too; one that has had an answer goes on until its context ends.
func WithRetry(attempts int, base time.Duration) Option {
	return clientOption(func(o *clientOptions) {
		o.attempts, o.base = attempts, base
		if attempts < 1 || base < minDuration {
			o.errs = append(o.errs, fmt.Errorf("pglease: WithRetry(%d, %v): at least 1 attempt and %v are needed", attempts, base, minDuration))
		}
	})
}

// SkipIfHeld has Do return nil without calling the function if the lease is held.
func SkipIfHeld() DoOption { return doWaiting("SkipIfHeld", waitSkip, 0) }

// Wait has Do wait until the lease is free, for as long as its context allows.
func Wait() DoOption { return doWaiting("Wait", waitFor, 0) }

// WaitFor has Do wait until the lease is free, for d at the most; then it returns an error that is ErrHeld. The function
// may then run for as long as it likes.
func WaitFor(d time.Duration) DoOption {
	if d <= 0 {
		return doOption(func(o *doOptions) {
			o.errs = append(o.errs, fmt.Errorf("pglease: WaitFor(%v): the duration must be positive", d))
		})
	}
	return doWaiting("WaitFor", waitFor, d)
}

func doWaiting(option string, w waiting, limit time.Duration) DoOption {
	return doOption(func(o *doOptions) {
		if o.wait != waitDefault && o.wait != w {
			o.errs = append(o.errs, fmt.Errorf("pglease: %s contradicts another option: either skip or wait", option))
		}
		o.wait, o.limit = w, limit
	})
}
