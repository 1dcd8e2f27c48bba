//go:build linux

// Command torture has many processes fight over a few leases while a nemesis kills, stops and cuts off processes, servers and
// networks, and checks afterwards that what they wrote down agrees with the contract (package history). Run it with
// "make torture SECONDS=1800 SEED=1".
//
// The seed decides which faults come in which order and what each process tries; the timing is the machine's, so that a seed
// gives a similar run and not the same one. With libfaketime installed (Debian: faketime) the server's clock jumps in the
// second half. It needs Linux and the binaries of a PostgreSQL server.
//
// The exit code is 1 if a rule was broken or nothing could be checked. Then the files of the run are kept, and -check reads
// them again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

var (
	seconds = flag.Int("seconds", 180, "for how long the faults go on")
	seed    = flag.Uint64("seed", 0, "decides about the faults; 0: take one at random")
	check   = flag.String("check", "", "check the files of an earlier run in this directory instead")
	only    = flag.String("only", "", "cause only faults whose kind contains this")
	pause   = flag.Duration("pause", 20*time.Millisecond, "for how long a guarded write pauses between its read and its write, at the most, but for a few")
	quiet   = flag.Bool("quiet", false, "do not tell of each fault")
)

func main() {
	if os.Getenv(workerVariable) != "" {
		if err := work(); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
}

var errViolated = errors.New("the contract was broken")

func run(ctx context.Context) error {
	if *check != "" {
		h, err := load(*check)
		if err != nil {
			return err
		}
		return report(os.Stdout, h)
	}
	if *seed == 0 {
		*seed = rand.Uint64N(1e6) + 1
	}
	began := time.Now()
	fmt.Printf("torture: %d s, seed %d\n", *seconds, *seed)
	dir, err := os.MkdirTemp("", "torture-")
	if err != nil {
		return err
	}
	d, err := newDirector(ctx, dir, rand.New(rand.NewPCG(*seed, 0)))
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	err = errors.Join(d.run(ctx, time.Duration(*seconds)*time.Second), d.close())
	h, loadErr := load(dir)
	if err := errors.Join(err, loadErr); err != nil {
		return fmt.Errorf("%w (the files are in %s)", err, dir)
	}
	fmt.Printf("\n%s, %s, seed %d, %d s of faults, %d s in all\n\n", time.Now().UTC().Format(time.DateOnly), machine(d.version), *seed, *seconds,
		int(time.Since(began).Seconds()))
	if err := report(os.Stdout, h); err != nil {
		return fmt.Errorf("%w: seed %d, the files are in %s", err, *seed, dir)
	}
	return os.RemoveAll(dir)
}
