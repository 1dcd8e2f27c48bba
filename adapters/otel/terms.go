package pgleaseotel

import (
	"sync"

	"github.com/pglease/pglease-go/pglease"
)

// terms are the terms that have begun and not ended. Each is counted once each way, although a release may be tried several
// times, a grant may be taken back before anybody has seen it, and a loss may be observed before the acquire that it follows.
type terms struct {
	mu   sync.Mutex
	held map[term]bool // false: it was lost before its acquire was observed
}

// A term is known by its owner too, since several clients may share an Observer, each with its own database.
type term struct {
	owner, name string
	token       int64
}

func of(e pglease.Event) term { return term{e.Owner, e.Name, e.Token} }

// begin reports whether the term counts as held from now on.
func (t *terms) begin(e pglease.Event) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ended := t.held[of(e)]; ended {
		delete(t.held, of(e))
		return false
	}
	if t.held == nil {
		t.held = make(map[term]bool)
	}
	t.held[of(e)] = true
	return true
}

// end reports whether the term had counted as held until now.
func (t *terms) end(e pglease.Event) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[of(e)] {
		delete(t.held, of(e))
		return true
	}
	if e.Kind == pglease.EventLost { // what nobody was given is not released by its holder, but may be lost
		if t.held == nil {
			t.held = make(map[term]bool)
		}
		t.held[of(e)] = false
	}
	return false
}

// withdraw forgets a term that nobody was given.
func (t *terms) withdraw(e pglease.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if held, there := t.held[of(e)]; there && !held {
		delete(t.held, of(e))
	}
}
