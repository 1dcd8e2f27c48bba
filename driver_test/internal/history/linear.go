package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// enough is how many operations are checked together at least. The checker's memory grows with the square of it.
const enough = 300

// unsettled is for how long after the server's clock was set back rows that had expired may seem not to have.
const unsettled = 20e9

// Linear checks that the lease of each name behaves as one object: there is an order of all operations, in keeping with
// their real times, in which each answer is right (see lease). An asynchronous failover, which may forget commits, divides the
// history: no order need span it, and operations after it on terms from before are counted apart.
func Linear(h *History) Verdict {
	v := Verdict{Rule: "each lease is one linearizable object"}
	byName, names := h.byName()
	for _, name := range names {
		ops := h.answers(byName[name])
		v.Checked += len(ops)
		start := lease{}
		for _, era := range h.eras(ops, &v) {
			for _, segment := range segments(era) {
				if legal(start, segment) {
					start = fold(start, segment)
					continue
				}
				reduced := reduce(start, segment)
				v.violate(name, values(reduced), "no order of these operations is legal, from %+v on", start)
				start = fold(start, segment)
			}
			start = lease{Last: start.Last, Fenced: true} // what the next era remembers is not known
		}
	}
	return v
}

// answers leaves out what the model does not need: operations of unknown outcome, and those on terms that nobody is known to
// have been granted. (AcquireAll renews what it has while it waits for the rest, and may give it back untold.)
func (h *History) answers(ops []*Op) []*Op {
	granted := make(map[int64]string)
	for _, o := range ops {
		if o.grants() {
			granted[o.Token] = o.Owner
		}
	}
	var kept []*Op
	for _, o := range ops {
		switch o.Action {
		case Try, Acquire:
			// An Acquire that gave up may answer what it was told much earlier.
			if o.Outcome == OK || o.Outcome == Held && o.Action == Try && h.known(o, granted) {
				kept = append(kept, o)
			}
		case Get:
			if o.Outcome == OK && h.known(o, granted) {
				if o.Live && h.between(o.Call-unsettled, o.Return, 0, "", Back) != nil {
					o.Live = false
				}
				kept = append(kept, o)
			}
		case Renew, Release, Check, Commit:
			if _, ok := granted[o.Token]; ok && (o.Outcome == OK || o.Outcome == Gone) {
				kept = append(kept, o)
			}
		case Force, Delete, Take:
			if o.Outcome == OK {
				kept = append(kept, o)
			}
		}
	}
	slices.SortStableFunc(kept, func(a, b *Op) int { return cmp.Compare(a.from(), b.from()) })
	return kept
}

func (h *History) known(o *Op, granted map[int64]string) bool {
	owner, ok := granted[o.Token]
	return ok && owner == o.Owner
}

// eras divides ops at the failovers that may have lost commits. What was under way during one belongs to no era, nor does
// what is said in a later era of a term that began before.
func (h *History) eras(ops []*Op, v *Verdict) [][]*Op {
	var failovers []Fault
	for _, f := range h.Faults {
		if f.Kind == PromoteAsync {
			failovers = append(failovers, f)
		}
	}
	eraOf := func(o *Op) int { // or -1
		era := 0
		for _, f := range failovers {
			if f.covers(o.from(), o.Return) {
				return -1
			}
			if f.Until != 0 && f.Until < o.from() {
				era++
			}
		}
		return era
	}
	began := make(map[int64]int) // the era of each term
	for _, o := range ops {
		if o.grants() {
			began[o.Token] = eraOf(o)
		}
	}
	eras := make([][]*Op, len(failovers)+1)
	for _, o := range ops {
		era := eraOf(o)
		if term, ok := began[o.Token]; era < 0 || ok && term != era {
			v.exclude(string(PromoteAsync))
			continue
		}
		eras[era] = append(eras[era], o)
	}
	return eras
}

// segments divides ops where no operation is under way and the state is certain.
func segments(ops []*Op) [][]*Op {
	var all [][]*Op
	begun, busy := 0, int64(math.MinInt64)
	for i, o := range ops {
		if i-begun >= enough && o.from() > busy {
			all = append(all, ops[begun:i])
			begun = i
		}
		busy = max(busy, o.Return)
	}
	if begun < len(ops) {
		all = append(all, ops[begun:])
	}
	return all
}

// fold returns the state after a legal segment, at whose end no operation is under way. It does not depend on the order that
// was found: the last term is the one with the highest token, and what ended it did so for ever. Only if its row was taken
// away while it was being granted it is not certain which was first: then it counts as current, of which more is legal.
func fold(s lease, segment []*Op) lease {
	var last *Op
	for _, o := range segment {
		if o.grants() && o.Token > s.Last {
			last = o
			s = lease{Last: o.Token, Current: true}
		}
	}
	for _, o := range segment {
		switch o.Action {
		case Renew, Release, Check:
			if o.Outcome == Gone || o.Action == Release {
				s = s.without(o.Token)
			}
		case Force, Delete, Take:
			if last == nil || o.from() > last.Return {
				s.Current, s.Fenced = false, true
			}
		}
	}
	return s
}

// reduce returns as few of the operations as still show the violation: a legal history stays legal without an operation that
// grants nothing, and without all operations of a term.
func reduce(from lease, ops []*Op) []*Op {
	without := func(drop func(*Op) bool) {
		rest := slices.DeleteFunc(slices.Clone(ops), drop)
		if len(rest) < len(ops) && !legal(from, rest) {
			ops = rest
		}
	}
	terms := make(map[int64]bool)
	for _, o := range ops {
		terms[o.Token] = true
	}
	for token := range terms {
		if token != from.Last {
			without(func(o *Op) bool { return o.Token == token })
		}
	}
	for _, candidate := range slices.Clone(ops) {
		if !candidate.grants() {
			without(func(o *Op) bool { return o == candidate })
		}
	}
	return ops
}

func values(ops []*Op) []Op {
	all := make([]Op, len(ops))
	for i, o := range ops {
		all[i] = *o
	}
	return all
}

func (o Op) String() string {
	outcome := string(o.Outcome)
	if outcome == "" {
		outcome = "unknown"
	}
	s := fmt.Sprintf("[%.6f, %.6f] client %d: %s(%s) token %d: %s", float64(o.from())/1e9, float64(o.Return)/1e9, o.Client, o.Action, o.Name, o.Token, outcome)
	if o.Deadline != 0 {
		s += fmt.Sprintf(", deadline %.6f", float64(o.Deadline)/1e9)
	}
	if o.Error != "" {
		s += " (" + o.Error + ")"
	}
	return s
}
