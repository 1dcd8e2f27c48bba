//go:build linux

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/pglease/pglease-go/driver_test/internal/history"
)

// machine says in a few words what was measured on.
func machine(version int) string {
	return fmt.Sprintf("PostgreSQL %d, %s, %s/%s, %d cores", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

// load reads the files of a run.
func load(dir string) (*history.History, error) {
	h := &history.History{}
	files, err := filepath.Glob(filepath.Join(dir, "client-*.jsonl"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		err = h.Read(f)
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	for file, into := range map[string]any{"writes.json": &h.Writes, "left.json": &h.Left} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			return nil, err
		}
	}
	faults, err := os.Open(filepath.Join(dir, "faults.jsonl"))
	if err != nil {
		return nil, err
	}
	defer faults.Close()
	for list := json.NewDecoder(faults); ; {
		var f history.Fault
		err := list.Decode(&f)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		h.Faults = append(h.Faults, f)
	}
	h.Sort()
	return h, nil
}

// report prints the tables for driver_test/README.md, and returns an error if a rule was broken.
func report(w io.Writer, h *history.History) error {
	operations(w, h)
	faults := make(map[history.Kind]int)
	for _, f := range h.Faults {
		faults[f.Kind]++
	}
	fmt.Fprintf(w, "\n| fault | times |\n|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(faults)) {
		fmt.Fprintf(w, "| %s | %d |\n", kind, faults[kind])
	}
	fmt.Fprintf(w, "\n| how a term followed another | times |\n|---|---|\n")
	successions := history.Successions(h)
	for _, how := range slices.Sorted(maps.Keys(successions)) {
		fmt.Fprintf(w, "| %s | %d |\n", how, successions[how])
	}
	broken := 0
	verdicts := h.Judge()
	fmt.Fprintf(w, "\n| rule | checked | violations | counted apart |\n|---|---|---|---|\n")
	for _, v := range verdicts {
		broken += len(v.Violations)
		var apart []string
		for _, reason := range slices.Sorted(maps.Keys(v.Excluded)) {
			apart = append(apart, fmt.Sprintf("%d: %s", v.Excluded[reason], reason))
		}
		fmt.Fprintf(w, "| %s | %d | %d | %s |\n", v.Rule, v.Checked, len(v.Violations), strings.Join(apart, "; "))
	}
	for _, v := range verdicts {
		for _, violation := range v.Violations {
			fmt.Fprintf(w, "\nVIOLATION of %q, %s: %s\n", v.Rule, violation.Name, violation.Text)
			for _, o := range violation.Ops {
				fmt.Fprintf(w, "    %v\n", o)
			}
			near(w, h, violation)
		}
	}
	if broken > 0 {
		return errViolated
	}
	return nil
}

// near prints the faults around a violation.
func near(w io.Writer, h *history.History, v history.Violation) {
	if len(v.Ops) == 0 {
		return
	}
	const around = 4e9
	from, to := v.Ops[0].Call, v.Ops[0].Call
	for _, o := range v.Ops {
		from, to = min(from, o.Call), max(to, o.Call, o.Start)
	}
	from, to = from-around, to+around
	for _, f := range h.Faults {
		if f.At <= to && max(f.At, f.Until) >= from {
			fmt.Fprintf(w, "    fault [%.6f, %.6f] %s, client %d, %s\n", float64(f.At)/1e9, float64(f.Until)/1e9, f.Kind, f.Client, f.Note)
		}
	}
}

// operations counts what each kind of client did.
func operations(w io.Writer, h *history.History) {
	type counts struct{ processes, ops, granted, held, unknown, lost, renewed, committed int }
	who := make(map[int]string)
	table := make(map[string]*counts)
	for _, o := range h.Ops {
		if o.Who != nil {
			who[o.Client] = fmt.Sprintf("%s | %s | %s", o.Who.Driver, o.Who.Backend, o.Who.Route)
		}
	}
	for _, o := range h.Ops {
		key := cmp.Or(who[o.Client], "director | |")
		c := table[key]
		if c == nil {
			c = &counts{}
			table[key] = c
		}
		switch {
		case o.Action == history.Hello:
			c.processes++
		case o.Action == history.Distrust && strings.Contains(o.Error, "lost"):
			c.lost++
		}
		if o.ID == 0 && o.Action != history.Renew {
			continue
		}
		c.ops++
		switch acquires := o.Action == history.Try || o.Action == history.Acquire || o.Action == history.Take; {
		case o.Outcome == history.Unknown:
			c.unknown++
		case acquires && o.Outcome == history.OK:
			c.granted++
		case acquires && o.Outcome == history.Held:
			c.held++
		case o.Action == history.Renew && o.Outcome == history.OK:
			c.renewed++
		case o.Action == history.Commit && o.Outcome == history.OK:
			c.committed++
		}
	}
	fmt.Fprintf(w, "| driver | backend | route | processes | operations | granted | held | renewed | guarded writes | lost | unknown |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, key := range slices.Sorted(maps.Keys(table)) {
		c := table[key]
		fmt.Fprintf(w, "| %s | %d | %d | %d | %d | %d | %d | %d | %d |\n", key, c.processes, c.ops, c.granted, c.held, c.renewed, c.committed, c.lost, c.unknown)
	}
}
