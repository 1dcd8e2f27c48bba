package history

import (
	"cmp"
	"slices"
)

// A span is the part of a guarded transaction in which it is safe: from the return of CheckTx to the call of Commit.
type span struct {
	write    Write
	commit   *Op
	from, to int64
}

// Writes checks the guarded writes of each name: each follows the one before (none is lost, none interleaved), tokens never
// go down, none is committed once a later term had been granted, and what was acknowledged is there.
func Writes(h *History) Verdict {
	v := Verdict{Rule: "guarded writes are in order, and none from a stale term"}
	byName, names := h.byName()
	writes := make(map[string][]Write)
	for _, w := range h.Writes {
		writes[w.Name] = append(writes[w.Name], w)
	}
	for _, name := range names {
		all := writes[name]
		slices.SortStableFunc(all, func(a, b Write) int { return cmp.Compare(a.Seq, b.Seq) })
		v.Checked += len(all)
		h.chain(&v, name, all)
		h.spans(&v, name, all, byName[name])
	}
	return v
}

// chain checks what the server says.
func (h *History) chain(v *Verdict, name string, all []Write) {
	var before Write
	for _, w := range all {
		switch {
		case w.Seq == before.Seq:
			v.violate(name, nil, "two writes have number %d, so one of them is lost: %+v, %+v", w.Seq, before, w)
		case w.Seq != before.Seq+1:
			v.violate(name, nil, "write number %d follows number %d: %+v, %+v", w.Seq, before.Seq, before, w)
		case w.ReadToken != before.Token:
			v.violate(name, nil, "write number %d did not read what the one before wrote: %+v, %+v", w.Seq, before, w)
		}
		if w.Token < before.Token {
			v.violate(name, nil, "write number %d has a lower token than the one before: %+v, %+v", w.Seq, before, w)
		}
		before = w
	}
}

// spans compares what the server says with what the clients saw.
func (h *History) spans(v *Verdict, name string, all []Write, ops []*Op) {
	type id struct {
		client int
		op     int64
	}
	commits := make(map[id]*Op)
	checks := make(map[id]*Op)
	var grants []*Op
	for _, o := range ops {
		switch {
		case o.Action == Commit:
			commits[id{o.Client, o.ID}] = o
		case o.Action == Check:
			checks[id{o.Client, o.ID}] = o
		case o.grants():
			grants = append(grants, o)
		}
	}
	var spans []span
	there := make(map[id]bool)
	for _, w := range all {
		key := id{w.Client, w.ID}
		there[key] = true
		commit, check := commits[key], checks[id{w.Client, w.ID - 1}] // the two are written down one after the other
		if commit == nil || check == nil {
			v.violate(name, nil, "nobody has asked for this write: %+v", w)
			continue
		}
		spans = append(spans, span{w, commit, check.Return, commit.Call})
		for _, g := range grants {
			if g.Token > w.Token && g.Return < commit.Call && h.between(g.from(), commit.Call, 0, "", PromoteAsync) == nil {
				v.violate(name, []Op{*g, *check, *commit}, "write %+v was committed after a later term had been granted", w)
				break
			}
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var open *span // the one that ended last so far
	for i := range spans {
		s := &spans[i]
		if open != nil && s.from < open.to && s.write.Token != open.write.Token {
			v.violate(name, []Op{*open.commit, *s.commit}, "two terms wrote at the same time: %+v, %+v", open.write, s.write)
		}
		if open == nil || s.to > open.to {
			open = s
		}
	}
	for key, o := range commits {
		switch {
		case o.Outcome != OK || there[key]:
		case h.between(o.Call, never, 0, "", PromoteAsync) != nil:
			v.exclude("acknowledged, then lost by an asynchronous failover")
		default:
			v.violate(name, []Op{*o}, "an acknowledged write is missing")
		}
	}
}
