package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// Flat is what does not grow: the median of the last fifth of the samples is not above that of the second fifth by more than the
// measure allows. The first fifth is for pools, caches and pages to fill. Advisory locks, of which none may be there at any look,
// are judged by each.

// judge returns what is not flat.
func (s *series) judge() (grown []string) {
	for i, m := range measures {
		early, late := s.fifths(i)
		if allowed := early*(1+m.fraction) + m.more; late > allowed {
			grown = append(grown, fmt.Sprintf("%s: %s grew from %.0f to %.0f %s (allowed: %.0f)", s, m.what, early, late, m.unit, allowed))
		}
		if m.what == "advisory locks" && s.most(i) > 0 {
			grown = append(grown, fmt.Sprintf("%s: up to %.0f advisory locks while nothing was held", s, s.most(i)))
		}
	}
	return grown
}

// fifths returns the medians of the second and of the last fifth.
func (s *series) fifths(measure int) (early, late float64) {
	n := len(s.samples)
	of := func(part []sample) float64 {
		values := make([]float64, len(part))
		for i := range part {
			values[i] = part[i].of[measure]
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return of(s.samples[n/5 : 2*n/5]), of(s.samples[4*n/5:])
}

func (s *series) most(measure int) float64 {
	return slices.MaxFunc(s.samples, func(a, b sample) int {
		return int(a.of[measure] - b.of[measure])
	}).of[measure]
}

// head prints the first lines of the table.
func head(w io.Writer) {
	fmt.Fprint(w, "| driver, backend | cycles | took |")
	for _, m := range measures {
		unit := m.unit
		if unit == "B" {
			unit = ", KiB"
		}
		fmt.Fprintf(w, " %s%s |", m.what, unit)
	}
	fmt.Fprintln(w, " flat |")
	fmt.Fprint(w, "|---|---|---|")
	for range measures {
		fmt.Fprint(w, "---|")
	}
	fmt.Fprintln(w, "---|")
}

// print prints a line of it: for each measure the medians of the second and of the last fifth.
func (s *series) print(w io.Writer, flat bool) {
	fmt.Fprintf(w, "| %s | %d | %v |", s, s.cycles, s.took.Round(time.Second))
	for i := range measures {
		early, late := s.fifths(i)
		fmt.Fprintf(w, " %s -> %s |", show(i, early), show(i, late))
	}
	fmt.Fprintf(w, " %s |\n", map[bool]string{true: "yes", false: "NO"}[flat])
}

// printSamples prints every sample, for a look at how something grows.
func (s *series) printSamples(w io.Writer) {
	for _, one := range s.samples {
		fmt.Fprintf(w, "    %s %9d:", s, one.cycles)
		for i, m := range measures {
			fmt.Fprintf(w, " %s %s,", m.what, show(i, one.of[i]))
		}
		fmt.Fprintln(w)
	}
}

func show(measure int, v float64) string {
	if measures[measure].unit == "B" {
		v /= 1024
	}
	return fmt.Sprintf("%.0f", v)
}
