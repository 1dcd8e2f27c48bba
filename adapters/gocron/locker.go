package pgleasegocron

import (
	"context"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/pglease/pglease-go/pglease"
)

// A Locker has each run of a job take the lease of the job's name. It is a gocron.Locker, for gocron.WithDistributedLocker
// and gocron.WithDistributedJobLocker.
type Locker struct {
	client *pglease.Client
	opts   []pglease.AcquireOption

	mu     sync.Mutex
	leases map[string]*pglease.Lease // of the runs under way
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker whose leases client holds, with opts laid over the client's own options. It does no I/O, and has
// nothing to close: the leases end with their runs, or with the client.
//
// Defaults are those of the client: unless it or opts say otherwise, WithTTL 30 s, WithHeartbeatInterval TTL/3, WithSafetyMargin
// TTL/10 and 1 s at the most, WithMinHold 0.
//
// With WithMinHold 0 a quick job that has ended before the clock of another machine strikes runs there once more. Say
// WithMinHold(d), with d longer than the clocks differ and shorter than the time between two runs.
func NewLocker(client *pglease.Client, opts ...pglease.AcquireOption) *Locker {
	return &Locker{client: client, opts: opts, leases: make(map[string]*pglease.Lease)}
}

// Lock makes one attempt to acquire the lease of key, which gocron says is the job's name: give jobs names with
// gocron.WithName, or two processes that name their functions differently will not meet. gocron skips the run on any error:
// one that is pglease.ErrHeld says that another has it, any other that it could not be found out. gocron tells neither but to
// gocron.AfterLockError.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lease, err := l.client.TryAcquire(ctx, key, l.opts...)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases[key] = lease
	return &lock{l, lease}, nil
}

// Lease returns the lease under which a job named key runs in this process, or nil if none does, or the lease is lost. To be
// called by the job once, when it begins: later, and after a loss, it may be the lease of another run.
func (l *Locker) Lease(key string) *pglease.Lease {
	l.mu.Lock()
	lease := l.leases[key]
	l.mu.Unlock()
	if lease == nil || lease.Err() != nil {
		return nil
	}
	return lease
}

type lock struct {
	locker *Locker
	lease  *pglease.Lease
}

// Unlock releases the lease, also when ctx is done, as it is when the scheduler shuts down. It returns a *pglease.LostError if
// the lease was lost during the run; gocron ignores that.
func (k *lock) Unlock(ctx context.Context) error {
	k.locker.mu.Lock()
	if name := k.lease.Name(); k.locker.leases[name] == k.lease {
		delete(k.locker.leases, name)
	}
	k.locker.mu.Unlock()
	return k.lease.Release(ctx)
}
