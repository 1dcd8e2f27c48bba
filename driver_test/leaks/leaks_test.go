package main

import (
	"context"
	"strings"
	"testing"
)

// TestNothingIsLeftBehind is a short form of the program: a goroutine, a connection, a lock or half a kilobyte left by each
// cycle is seen.
func TestNothingIsLeftBehind(t *testing.T) {
	if err := run(context.Background(), t.Output(), 2000, "", testing.Verbose()); err != nil {
		t.Fatal(err)
	}
}

// flat is a series that is as it should be, apart from what change does to it.
func flat(change func(i int, of *[len(measures)]float64)) *series {
	s := &series{driver: "pgx"}
	for i := range looks {
		one := sample{cycles: 20_000 * (i + 1), of: [len(measures)]float64{4 << 20, 1 << 20, 12, 9, 9, 1 << 20, 64 << 10, 0}}
		if i < looks/5 {
			one.of[0] /= 2 // caches fill
		}
		one.of[2] += float64(i % 2) // and a goroutine comes and goes
		change(i, &one.of)
		s.samples = append(s.samples, one)
	}
	return s
}

func TestGrowthIsSeen(t *testing.T) {
	if grown := flat(func(int, *[len(measures)]float64) {}).judge(); len(grown) > 0 {
		t.Errorf("a flat series was rejected: %q", grown)
	}
	each := map[string]float64{ // what 20,000 cycles add, in the least leak that must be seen
		"heap after GC": 20_000, "stacks": 40_000, "goroutines": 1, "connections of the pool": 0.1, "sessions of the server": 0.1,
		"table": 200_000, "indexes": 8192, "advisory locks": 1,
	}
	for m, measure := range measures {
		grown := flat(func(i int, of *[len(measures)]float64) { of[m] += float64(int(float64(i) * each[measure.what])) }).judge()
		if len(grown) == 0 || !strings.Contains(grown[0], measure.what) {
			t.Errorf("%s: growth was not seen: %q", measure.what, grown)
		}
	}
	once := flat(func(i int, of *[len(measures)]float64) {
		if i == 30 {
			of[7] = 1
		}
	}).judge()
	if len(once) != 1 {
		t.Errorf("a lock that was there once was not seen: %q", once)
	}
}
