package pgleasetest

import "time"

// Advance moves the store's clock forward by d: whatever has less than that left expires, and its holder learns of it at
// its next heartbeat. It does not move the clock of this process: trust deadlines stay where they are. Inside a synctest
// bubble time.Sleep moves both.
func (m *Memory) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offset += d
}

// Expire ends the TTL of the term that name is in, as a holder would that has not renewed it, and reports whether there was
// one. The name is free at once; its holder learns of it at its next heartbeat.
func (m *Memory) Expire(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, now := m.rows[name], m.now()
	if r == nil || !r.expiresAt.After(now) {
		return false
	}
	r.expiresAt = now
	return true
}

// Lose takes the term away that name is in, as if another had taken it over and released it since: the token is a higher
// one. It reports whether there was a term. Its holder learns of it at its next heartbeat.
func (m *Memory) Lose(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, now := m.rows[name], m.now()
	if r == nil || !r.expiresAt.After(now) {
		return false
	}
	m.fence(r, now)
	return true
}

// Delete deletes the row of name, as an operator might, held or not, and reports whether there was one.
func (m *Memory) Delete(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, there := m.rows[name]
	delete(m.rows, name)
	return there
}

// Fail makes every call fail with err and do nothing, as during an outage, until Fail(nil). The clients of m turn err
// into a *pglease.BackendError, unless it is one of the package's own errors.
func (m *Memory) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}
