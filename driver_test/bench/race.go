//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An entry is a contender in a race.
type entry struct {
	contender
	place *place
	racer *racer
	rates []float64 // operations a second, one for each round
}

// enter starts every contender on both drivers.
func (m *meter) enter(counted bool) (entries []*entry, err error) {
	for _, c := range contenders {
		for _, driver := range drivers {
			e := &entry{contender: c, place: m.place(driver, counted)}
			if e.racer, err = c.start(e.place); err != nil {
				return nil, errors.Join(fmt.Errorf("%s, %s: %w", c.name, driver, err), leave(entries))
			}
			entries = append(entries, e)
		}
	}
	return entries, nil
}

func leave(entries []*entry) (err error) {
	for _, e := range entries {
		err = errors.Join(err, e.racer.close())
	}
	return err
}

func (m *meter) acquire(n int) (err error) {
	bars := map[string]float64{"pglease table, pgx": 0.90, "pglease table, lib/pq": 0.75, "pglease hybrid, pgx": 0.80, "pglease hybrid, lib/pq": 0.60}
	entries, err := m.enter(false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave(entries)) }()
	why := func(e *entry) string { return "" }
	if n > 1 {
		why = func(e *entry) string { return e.notMany }
	}
	return m.race(entries, n, bars, why, func(e *entry) func(context.Context, int) error { return e.racer.cycle })
}

func (m *meter) try() (err error) {
	bars := map[string]float64{"pglease table, pgx": 0.80, "pglease table, lib/pq": 0.80, "pglease hybrid, pgx": 0.80, "pglease hybrid, lib/pq": 0.80}
	entries, err := m.enter(false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave(entries)) }()
	for _, e := range entries {
		if e.notTry == "" {
			if err := e.racer.hold(m.ctx); err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
		}
	}
	return m.race(entries, 1, bars, func(e *entry) string { return e.notTry }, func(e *entry) func(context.Context, int) error { return e.racer.try })
}

// race lets all entries run in each round, one after the other, and starts each round with another one, so that whatever else the
// machine does strikes all alike. Rounds are short and many for the same reason. The ratio to the floor is taken within a round.
// A round before the first is not counted.
func (m *meter) race(entries []*entry, n int, bars map[string]float64, why func(*entry) string, op func(*entry) func(context.Context, int) error) error {
	var running []*entry
	for _, e := range entries {
		if why(e) == "" {
			running = append(running, e)
		}
	}
	for round := range *rounds + 1 {
		for i := range running {
			e := running[(i+round)%len(running)]
			rate, err := repeat(m.ctx, n, *slice, op(e))
			if err != nil {
				return fmt.Errorf("%s, %s: %w", e.name, nameOf(e.place.driver), err)
			}
			if round > 0 {
				e.rates = append(e.rates, rate)
			}
		}
	}
	fmt.Println("| who | driver | a second, median | quartiles | of the floor, median | quartiles | bar |")
	fmt.Println("|---|---|---|---|---|---|---|")
	floors := map[string][]float64{}
	for _, e := range entries {
		driver := nameOf(e.place.driver)
		if reason := why(e); reason != "" {
			fmt.Printf("| %s | %s | not measured: %s | | | | |\n", e.name, driver, reason)
			continue
		}
		if e.name == "floor" {
			floors[driver] = e.rates
		}
		ratios := make([]float64, len(e.rates))
		for i := range ratios {
			ratios[i] = e.rates[i] / floors[driver][i]
		}
		bar := ""
		if least := bars[e.name+", "+driver]; least > 0 {
			bar = fmt.Sprintf(">= %.2f: ", least)
			if quantile(ratios, 0.5) < least {
				bar += "missed"
			} else {
				bar += "met"
			}
		}
		fmt.Printf("| %s | %s | %.0f | %.0f-%.0f | %.2f | %.2f-%.2f | %s |\n", e.name, driver,
			quantile(e.rates, 0.5), quantile(e.rates, 0.25), quantile(e.rates, 0.75), quantile(ratios, 0.5), quantile(ratios, 0.25), quantile(ratios, 0.75), bar)
	}
	return nil
}

// repeat runs op over and over on n goroutines for d, and returns how often it ended in a second.
func repeat(ctx context.Context, n int, d time.Duration, op func(context.Context, int) error) (float64, error) {
	var (
		ended atomic.Int64
		group sync.WaitGroup
		errs  = make([]error, n)
		begun = time.Now()
	)
	for i := range n {
		group.Go(func() {
			for time.Since(begun) < d && errs[i] == nil {
				errs[i] = op(ctx, i)
				ended.Add(1)
			}
		})
	}
	group.Wait()
	return float64(ended.Load()) / time.Since(begun).Seconds(), errors.Join(errs...)
}

// quantile returns the value below which a part q of values lies, between two of them if it lies there.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}
