package pglease

import (
	"context"
	"fmt"
)

// A reservation is a number of connections that AcquireAll may pin. Two calls that took theirs one by one could each have half
// of the pool and wait for the other's half for ever.
type reservation struct {
	h    *hybridBackend
	size int

	// guarded by h.mu
	out  int // pinned now
	over bool
}

// reserve waits until the pool has n connections that no hybrid lease has pinned. It counts only what this client pins: what
// the application uses, it gives back.
func (h *hybridBackend) reserve(ctx context.Context, n int) (*reservation, error) {
	limit := 1
	if h.keeper != nil {
		limit = h.keeper.pool.Stats().MaxOpenConnections
	}
	if limit > 0 && n > limit {
		return nil, &UnsupportedError{
			fmt.Sprintf("%d hybrid leases at once need as many connections, and the pool has %d", n, limit),
			"raise SetMaxOpenConns, ask for fewer, or use the table backend",
		}
	}
	for {
		h.mu.Lock()
		if limit == 0 || h.pinned+n <= limit {
			h.pinned += n
			h.mu.Unlock()
			return &reservation{h: h, size: n}, nil
		}
		freed := h.freed
		h.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, &BackendError{Op: "acquire", text: "no connections to pin: " + ctx.Err().Error(), cause: ctx.Err, unsent: true}
		}
	}
}

// end gives up what of the reservation is not pinned.
func (r *reservation) end() {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	r.over = true
	r.h.free(r.size - r.out)
}

// free counts n connections less, and tells those who wait for some. It is called with h.mu locked.
func (h *hybridBackend) free(n int) {
	h.pinned -= n
	if n > 0 {
		close(h.freed)
		h.freed = make(chan struct{})
	}
}

// unpinned counts a connection that is not pinned any more.
func (h *hybridBackend) unpinned(of *reservation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if of == nil {
		h.free(1)
		return
	}
	of.out--
	if of.over {
		h.free(1)
	}
}
