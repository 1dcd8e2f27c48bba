package history

import (
	"cmp"
	"slices"
	"time"
)

// A trusted is one term as its holder believed in it.
type trusted struct {
	grant    *Op
	who      Who
	from, to int64
}

// beforehand is how long before a takeover a session may have ended whose holder could not hear of it: the longest bound of
// notice, and what the takeover itself takes.
const beforehand = 3 * time.Second

// Trust checks that no two processes trust that they hold the same name at one instant, and that no process finds its lease
// in order after the deadline.
func Trust(h *History) Verdict {
	v := Verdict{Rule: "trusted intervals do not overlap"}
	terms, late := h.trusted()
	for _, o := range late {
		v.violate(o.Name, []Op{*o}, "client %d found token %d in order after its deadline", o.Client, o.Token)
	}
	byName := make(map[string][]*trusted)
	for _, t := range terms {
		byName[t.grant.Name] = append(byName[t.grant.Name], t)
	}
	for name, all := range byName {
		slices.SortFunc(all, func(a, b *trusted) int { return cmp.Compare(a.from, b.from) })
		v.Checked += len(all)
		for i, a := range all {
			for _, b := range all[i+1:] {
				if b.from >= a.to {
					continue
				}
				if reason := h.excused(a, b); reason != "" {
					v.exclude(reason)
					continue
				}
				v.violate(name, []Op{*a.grant, *b.grant}, "client %d trusted token %d until %.6f, client %d trusted token %d from %.6f",
					a.grant.Client, a.grant.Token, float64(a.to)/1e9, b.grant.Client, b.grant.Token, float64(b.from)/1e9)
			}
		}
	}
	return v
}

type termID struct {
	client int
	name   string
	token  int64
}

// trusted returns the terms, and the looks that came too late.
func (h *History) trusted() (terms []*trusted, late []*Op) {
	who := h.who()
	m := make(map[termID]*trusted)
	deadline := make(map[termID]int64) // the last that is known
	final := make(map[termID]int64)    // that of a term whose end was written down
	looked := make(map[termID]*Op)     // the last look that found the lease in order
	for i := range h.Ops {
		o := &h.Ops[i]
		if (o.grants() || o.Action == Take && o.Outcome == OK) && o.Return != never {
			t := &trusted{grant: o, who: who[o.Client], from: o.Return, to: never}
			m[termID{o.Client, o.Name, o.Token}] = t
			terms = append(terms, t)
		}
	}
	for i := range h.Ops {
		o := &h.Ops[i]
		id := termID{o.Client, o.Name, o.Token}
		t := m[id]
		if t == nil {
			continue
		}
		if o.Outcome == OK {
			deadline[id] = max(deadline[id], o.Deadline)
		}
		switch o.Action {
		case Release:
			t.to = min(t.to, o.Call)
		case Distrust:
			t.to = min(t.to, o.Call)
			final[id] = o.Deadline
		case Look:
			if o.Outcome == OK && (looked[id] == nil || o.Call > looked[id].Call) {
				looked[id] = o
			}
		}
	}
	for id, t := range m {
		if f := h.between(t.from, t.to, id.client, "", Kill); f != nil && f.Client == id.client {
			t.to = min(t.to, f.Until)
		}
		d := deadline[id]
		if final[id] != 0 {
			d = final[id]
		}
		if d != 0 {
			t.to = min(t.to, d)
		}
		if l := looked[id]; l != nil && l.Call > t.to {
			t.to = l.Call
			if d != 0 && l.Call > d {
				late = append(late, l)
			}
		}
	}
	return terms, late
}

// excused returns the reason for which a and b may have been trusted at the same time, b from later on than a, or "".
func (h *History) excused(a, b *trusted) string {
	name, until := a.grant.Name, b.from
	// The one that should have known better is the older term, even if its holder was told of it later. By its deadline at
	// the latest it learns of everything.
	old := a
	if later(a.grant, b.grant) {
		old = b
	}
	since := max(min(a.grant.from(), b.grant.from()), until-int64(old.who.TTL)-int64(time.Second))
	if f := h.between(since, until, 0, name, PromoteAsync, Forward, ForceOut, Remove, Edit); f != nil {
		return string(f.Kind)
	}
	if old.who.Backend != "hybrid" {
		return ""
	}
	recently := max(since, until-int64(beforehand))
	client := old.grant.Client
	ended := h.between(recently, until, client, name, Terminate, Reset) != nil || h.restored(recently, until, client)
	cut := h.between(recently, until, client, name, Stop, LongStop, Silence, HalfOpen, Latency, Stalled, Freeze) != nil
	if ended && cut {
		return "session ended while its holder was paused or cut off (3.2)"
	}
	return ""
}

// later reports whether a began after b did. A Python worker's tokens do not tell.
func later(a, b *Op) bool {
	if a.Token > 0 && b.Token > 0 {
		return a.Token > b.Token
	}
	return a.from() > b.from()
}

// restored reports whether a client's connections were ended by the end of a partition.
func (h *History) restored(from, to int64, client int) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool {
		return (f.Kind == Silence || f.Kind == HalfOpen) && f.Client == client && f.Until >= from && f.Until <= to
	})
}
