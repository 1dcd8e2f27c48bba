package history

import (
	"cmp"
	"slices"
)

// Tokens checks that the tokens of each name strictly increase in the order of grants: a grant whose call began after another
// grant had returned has the higher token, and no token is granted twice. Nothing excuses a breach: the director neither
// deletes rows nor has Python workers do so while the server's clock stands behind a past grant.
func Tokens(h *History) Verdict {
	v := Verdict{Rule: "tokens increase in the order of grants"}
	ops, names := h.byName()
	for _, name := range names {
		var grants []*Op
		seen := make(map[int64]*Op)
		for _, o := range ops[name] {
			if !o.grants() {
				continue
			}
			v.Checked++
			if twin := seen[o.Token]; twin != nil {
				v.violate(name, []Op{*twin, *o}, "token %d was granted twice", o.Token)
			}
			seen[o.Token] = o
			grants = append(grants, o)
		}
		// grants is in the order of calls; returned, of returns.
		returned := slices.Clone(grants)
		slices.SortFunc(returned, func(a, b *Op) int { return cmp.Compare(a.Return, b.Return) })
		var highest *Op // of those that returned before the call of g
		next := 0
		for _, g := range grants {
			for ; next < len(returned) && returned[next].Return < g.Call; next++ {
				if highest == nil || returned[next].Token > highest.Token {
					highest = returned[next]
				}
			}
			if highest != nil && g.Token < highest.Token {
				v.violate(name, []Op{*highest, *g}, "token %d was granted after token %d", g.Token, highest.Token)
			}
		}
	}
	return v
}
