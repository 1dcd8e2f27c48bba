package history

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// A lease is the state of the object that a name stands for.
//
// The model makes no use of time: a term may expire at any instant, and so a grant may always follow. What an operation of
// unknown outcome may have done (begun a term that nobody learned of, ended one), an expiry may have done as well; so such
// operations are left out, and the model need not guess. It therefore accepts every legal history, and rejects one in
// which a term shows life after its end.
type lease struct {
	Last    int64 // the highest token so far
	Current bool  // the term of Last has not been seen to end
	Fenced  bool  // its row was taken from it, past every CheckTx, by ForceRelease, a deletion or a Python worker
}

// step says whether o may happen in state s, and what the state is then. An Op that reports the loss of a term is allowed at
// any time, for it may have expired; but the term has no life after it.
func (s lease) step(o *Op) (lease, bool) {
	switch o.Action {
	case Try, Acquire:
		if o.Outcome == Held {
			return s, o.Token == s.Last
		}
		return lease{Last: o.Token, Current: true}, o.Token > s.Last
	case Renew:
		if o.Outcome == Gone {
			return s.without(o.Token), true
		}
		return s, s.is(o.Token)
	case Release:
		ok := o.Outcome == Gone || s.is(o.Token)
		return s.without(o.Token), ok
	case Check:
		if o.Outcome == Gone {
			return s.without(o.Token), true
		}
		return s, s.is(o.Token)
	case Commit: // the term may have been released or have expired since the CheckTx, but nobody can have had the row
		return s, o.Token == s.Last && !s.Fenced
	case Get:
		return s, o.Token == s.Last && (s.Current || !o.Live)
	case Force, Delete, Take:
		return lease{Last: s.Last, Fenced: true}, true
	}
	panic(fmt.Sprintf("history: the model does not know %q", o.Action))
}

func (s lease) is(token int64) bool { return s.Current && s.Last == token }

func (s lease) without(token int64) lease {
	if s.Last == token {
		s.Current = false
	}
	return s
}

// model is the lease as porcupine wants it, from a state on.
func model(from lease) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return from },
		Step: func(state, input, _ any) (bool, any) {
			next, ok := state.(lease).step(input.(*Op))
			return ok, next
		},
	}
}

// legal reports whether there is an order of ops, in keeping with real time, that the model allows.
func legal(from lease, ops []*Op) bool {
	list := make([]porcupine.Operation, len(ops))
	for i, o := range ops {
		list[i] = porcupine.Operation{ClientId: o.Client, Input: o, Call: o.from(), Return: o.Return}
	}
	return porcupine.CheckOperations(model(from), list)
}
