package pgleasetest

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// Memory is a Backend that keeps its leases in this process, for the unit tests of code that uses leases. It behaves as
// the lease table does, in tokens, expiry, minimum hold and what a lost term may still do, with two exceptions: Check looks
// at the term but ignores the transaction (new(sql.Tx) will do), and nothing outlives the process.
//
// Clients of one Memory contend with each other; each Memory is a database of its own. It starts no goroutine and reads
// the time by time.Now, so it works inside a testing/synctest bubble, where an hour passes at once.
//
// A test steers it by Advance, Expire, Lose, Delete and Fail. It may be used by several goroutines at once.
type Memory struct {
	mu     sync.Mutex
	offset time.Duration // of the store's clock from this machine's
	err    error         // what every call fails with
	rows   map[string]*row
}

// row is one row of the lease table.
type row struct {
	term                               pglease.Term
	attempt                            int64
	acquiredAt, expiresAt, heartbeatAt time.Time
	metadata                           map[string]string
}

// NewMemory returns an empty Memory: give it to pglease.New(nil, pglease.WithBackend(m)).
func NewMemory() *Memory { return &Memory{rows: make(map[string]*row)} }

// now is the store's clock, with the precision of PostgreSQL's.
func (m *Memory) now() time.Time { return time.Now().Add(m.offset).UTC().Truncate(time.Microsecond) }

// nextToken follows the rule of the lease table: higher than the last one, and than any before a deletion of the row.
func nextToken(last int64, now time.Time) int64 { return max(last+1, now.UnixMicro()) }

func (m *Memory) fence(r *row, now time.Time) {
	r.term.Token = nextToken(r.term.Token, now)
	if r.expiresAt.After(now) {
		r.expiresAt = now
	}
	r.heartbeatAt = r.expiresAt
}

// current returns the row of a term that is neither over nor released.
func (m *Memory) current(t pglease.Term, now time.Time) *row {
	r := m.rows[t.Name]
	if r == nil || r.term != t || !r.expiresAt.After(now) || !r.heartbeatAt.Before(r.expiresAt) {
		return nil
	}
	return r
}

func (r *row) info(now time.Time) pglease.Info {
	return pglease.Info{
		Name:        r.term.Name,
		Owner:       r.term.Owner,
		Token:       r.term.Token,
		AcquiredAt:  r.acquiredAt,
		ExpiresAt:   r.expiresAt,
		HeartbeatAt: r.heartbeatAt,
		ObservedAt:  now,
		Mode:        pglease.ModeTable,
		Metadata:    maps.Clone(r.metadata),
	}
}

// end marks a row as released: it expires now, or when its minimum hold is over, and cannot be renewed.
func (r *row) end(now time.Time, minHold time.Duration) {
	r.expiresAt = now
	if until := r.acquiredAt.Add(minHold); until.After(now) {
		r.expiresAt = until
	}
	r.heartbeatAt = r.expiresAt
}

// enter begins a call: it locks m and returns the function that unlocks it, or the error that the call fails with.
func (m *Memory) enter(ctx context.Context) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	if m.err != nil {
		defer m.mu.Unlock()
		return nil, m.err
	}
	return m.mu.Unlock, nil
}

// EnsureSchema does nothing.
func (m *Memory) EnsureSchema(ctx context.Context) error {
	leave, err := m.enter(ctx)
	if err != nil {
		return err
	}
	leave()
	return nil
}

// Acquire implements pglease.Backend.
func (m *Memory) Acquire(ctx context.Context, q pglease.Request) (pglease.Grant, error) {
	start := time.Now()
	leave, err := m.enter(ctx)
	if err != nil {
		return pglease.Grant{}, err
	}
	defer leave()
	r, now := m.rows[q.Name], m.now()
	var last int64
	if r != nil {
		if r.expiresAt.After(now) {
			return pglease.Grant{}, &pglease.HeldError{Info: r.info(now)}
		}
		last = r.term.Token
	}
	r = &row{
		term:        pglease.Term{Name: q.Name, Owner: q.Owner, Token: nextToken(last, now)},
		attempt:     q.Attempt,
		acquiredAt:  now,
		expiresAt:   now.Add(q.TTL),
		heartbeatAt: now,
		metadata:    maps.Clone(q.Metadata),
	}
	m.rows[q.Name] = r
	return pglease.Grant{Term: r.term, AcquiredAt: r.acquiredAt, ExpiresAt: r.expiresAt, Start: start}, nil
}

// Withdraw implements pglease.Backend.
func (m *Memory) Withdraw(ctx context.Context, q pglease.Request) (bool, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	r, now := m.rows[q.Name], m.now()
	if r == nil || r.term.Owner != q.Owner || r.attempt != q.Attempt || m.current(r.term, now) == nil {
		return false, nil
	}
	r.end(now, 0)
	return true, nil
}

// Renew implements pglease.Backend.
func (m *Memory) Renew(ctx context.Context, rs []pglease.Renewal) ([]pglease.RenewalResult, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	now := m.now()
	results := make([]pglease.RenewalResult, len(rs))
	for i, q := range rs {
		r := m.current(q.Term, now)
		if r == nil {
			results[i].State = pglease.RenewalGone
			continue
		}
		r.expiresAt, r.heartbeatAt = now.Add(q.TTL), now
		results[i] = pglease.RenewalResult{State: pglease.RenewalDone, ExpiresAt: r.expiresAt}
	}
	return results, nil
}

// Release implements pglease.Backend.
func (m *Memory) Release(ctx context.Context, t pglease.Term, minHold time.Duration) error {
	leave, err := m.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	now := m.now()
	r := m.current(t, now)
	if r == nil {
		return pglease.ErrLost
	}
	r.end(now, minHold)
	return nil
}

// Forget implements pglease.Backend: there is nothing to forget.
func (m *Memory) Forget(pglease.Term) {}

// Check reports whether the term is current. It ignores tx, so it holds nobody off.
func (m *Memory) Check(ctx context.Context, _ *sql.Tx, t pglease.Term) error {
	leave, err := m.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if m.current(t, m.now()) == nil {
		return pglease.ErrLost
	}
	return nil
}

// CheckQuery returns a statement that answers, from any SQL database, whether the term was current when it was asked for.
func (m *Memory) CheckQuery(t pglease.Term) (query string, args []any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current(t, m.now()) == nil {
		return "VALUES (false)", nil
	}
	return "VALUES (true)", nil
}

// Get implements pglease.Backend.
func (m *Memory) Get(ctx context.Context, name string) (pglease.Info, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return pglease.Info{}, err
	}
	defer leave()
	r := m.rows[name]
	if r == nil {
		return pglease.Info{}, notFound(name)
	}
	return r.info(m.now()), nil
}

func notFound(name string) error { return fmt.Errorf("%w: %q", pglease.ErrNotFound, name) }

// List implements pglease.Backend.
func (m *Memory) List(ctx context.Context, prefix string, limit int, withExpired bool) ([]pglease.Info, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	now := m.now()
	infos := []pglease.Info{}
	for _, name := range slices.Sorted(maps.Keys(m.rows)) {
		r := m.rows[name]
		if strings.HasPrefix(name, prefix) && (withExpired || r.expiresAt.After(now)) && (limit == 0 || len(infos) < limit) {
			infos = append(infos, r.info(now))
		}
	}
	return infos, nil
}

// ForceRelease implements pglease.Backend.
func (m *Memory) ForceRelease(ctx context.Context, name string, ifToken *int64) (pglease.Info, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return pglease.Info{}, err
	}
	defer leave()
	r, now := m.rows[name], m.now()
	if r == nil {
		return pglease.Info{}, notFound(name)
	}
	info := r.info(now)
	if ifToken != nil && info.Token != *ifToken {
		return pglease.Info{}, &pglease.HeldError{Info: info}
	}
	m.fence(r, now)
	return info, nil
}

// DeleteExpired implements pglease.Backend.
func (m *Memory) DeleteExpired(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	now := m.now()
	var n int64
	for name, r := range m.rows {
		if n < int64(limit) && !r.expiresAt.After(now.Add(-olderThan)) && r.term.Token < now.UnixMicro() {
			delete(m.rows, name)
			n++
		}
	}
	return n, nil
}

// Close implements pglease.Backend. The leases stay, as those of a database do.
func (m *Memory) Close(context.Context) error { return nil }

var _ pglease.Backend = (*Memory)(nil)
