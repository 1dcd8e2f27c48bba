package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// never is later than every instant.
const never = math.MaxInt64

// A History is all that is known of a run.
type History struct {
	Ops    []Op // one for each operation, by Call
	Faults []Fault
	Writes []Write
	Left   Left
}

// Read adds the lines of one process. The last line may be cut off: the process was killed.
func (h *History) Read(r io.Reader) error {
	open := make(map[int64]Op)
	var order []int64
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		var o Op
		if err := json.Unmarshal(bytes.TrimSpace(line), &o); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		switch {
		case o.ID == 0:
			h.Ops = append(h.Ops, o)
		case o.Return == 0:
			open[o.ID] = o
			order = append(order, o.ID)
		default:
			delete(open, o.ID)
			h.Ops = append(h.Ops, o)
		}
	}
	for _, id := range order {
		if o, ok := open[id]; ok {
			o.Return = never
			h.Ops = append(h.Ops, o)
		}
	}
	return nil
}

// Sort brings what was read into the order of calls, and makes faults of the stalls that processes noticed. Call it once,
// after the last Read.
func (h *History) Sort() {
	for _, o := range h.Ops {
		if o.Action == Stall {
			h.Faults = append(h.Faults, Fault{Kind: Stalled, At: o.Call, Until: o.Return, Client: o.Client})
		}
	}
	slices.SortStableFunc(h.Ops, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortStableFunc(h.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
}

// who returns what each process was.
func (h *History) who() map[int]Who {
	m := make(map[int]Who)
	for _, o := range h.Ops {
		if o.Who != nil {
			m[o.Client] = *o.Who
		}
	}
	return m
}

// byName returns the operations of each name, and the names in order.
func (h *History) byName() (map[string][]*Op, []string) {
	m := make(map[string][]*Op)
	var names []string
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Name == "" {
			continue
		}
		if m[o.Name] == nil {
			names = append(names, o.Name)
		}
		m[o.Name] = append(m[o.Name], o)
	}
	slices.Sort(names)
	return m, names
}

// between returns the first fault of one of the kinds that concerns client and name and was under way between from and to,
// or nil.
func (h *History) between(from, to int64, client int, name string, kinds ...Kind) *Fault {
	for i := range h.Faults {
		f := &h.Faults[i]
		if f.covers(from, to) && (f.Client == 0 || client == 0 || f.Client == client) && (f.Name == "" || f.Name == name) && slices.Contains(kinds, f.Kind) {
			return f
		}
	}
	return nil
}

// A Violation is something that must not happen, with the operations that show it.
type Violation struct {
	Name string // of the lease
	Text string
	Ops  []Op
}

// A Verdict is what a checker found.
type Verdict struct {
	Rule       string
	Checked    int // things that could have broken the rule
	Violations []Violation
	Excluded   map[string]int // what would be a violation, by the reason for which it is none
}

func (v *Verdict) exclude(reason string) {
	if v.Excluded == nil {
		v.Excluded = make(map[string]int)
	}
	v.Excluded[reason]++
}

func (v *Verdict) violate(name string, ops []Op, format string, args ...any) {
	v.Violations = append(v.Violations, Violation{name, fmt.Sprintf(format, args...), ops})
}

// Judge runs all checkers.
func (h *History) Judge() []Verdict {
	return []Verdict{Linear(h), Tokens(h), Writes(h), Trust(h), End(h)}
}
