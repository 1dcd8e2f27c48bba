package history

import (
	"cmp"
	"slices"
)

// Successions counts how terms followed each other: after a release, after the deadline of a holder that did not release, or
// before it, which only hybrid, ForceRelease and the like make possible. It shows what a run has put to the test.
func Successions(h *History) map[string]int {
	counts := make(map[string]int)
	byName, _ := h.byName()
	who := h.who()
	for _, ops := range byName {
		var grants []*Op
		released := make(map[int64]bool)
		deadline := make(map[int64]int64)
		for _, o := range ops {
			switch {
			case o.grants():
				grants = append(grants, o)
			case o.Action == Release && o.Outcome == OK:
				released[o.Token] = true
			}
			if o.Outcome == OK {
				deadline[o.Token] = max(deadline[o.Token], o.Deadline)
			}
		}
		slices.SortFunc(grants, func(a, b *Op) int { return cmp.Compare(a.Token, b.Token) })
		for i := 1; i < len(grants); i++ {
			before, next := grants[i-1], grants[i]
			switch {
			case released[before.Token]:
				counts["after a release"]++
			case next.Return > deadline[before.Token]:
				counts["after the holder's deadline"]++
			case who[before.Client].Backend == "hybrid" && who[next.Client].Backend == "hybrid":
				counts["before its deadline, hybrid after hybrid"]++
			default:
				counts["before its deadline, otherwise"]++
			}
		}
	}
	return counts
}
