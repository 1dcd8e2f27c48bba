package pglease_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/pgleasetest"
)

func ExampleHeldError() {
	client := newClient(pglease.WithOwner("web-1"), pglease.WithMetadata(map[string]string{"job": "4711"}))
	defer func() { _ = client.Close(ctx) }()

	if _, err := client.TryAcquire(ctx, "import"); err != nil {
		log.Fatal(err)
	}
	_, err := client.TryAcquire(ctx, "import")
	var held *pglease.HeldError
	if errors.As(err, &held) {
		fmt.Println("held for job", held.Metadata["job"], "for", held.Remaining().Round(time.Second))
	}
	fmt.Println(errors.Is(err, pglease.ErrHeld))
	// Output:
	// held for job 4711 for 30s
	// true
}

func ExampleLostError() {
	store := pgleasetest.NewMemory()
	client := newClient(pglease.WithBackend(store))
	defer func() { _ = client.Close(ctx) }()

	err := client.Do(ctx, "import", func(ctx context.Context, l *pglease.Lease) error {
		store.Lose("import") // somebody has forced it away
		_ = l.Renew(ctx)     // as the next heartbeat would
		return nil
	})
	var lost *pglease.LostError
	if errors.As(err, &lost) && lost.Reason == pglease.LossGone {
		fmt.Println("another may have run meanwhile")
	}
	fmt.Println(errors.Is(err, pglease.ErrLost))
	// Output:
	// another may have run meanwhile
	// true
}

func ExampleBackendError() {
	store := pgleasetest.NewMemory()
	client := newClient(pglease.WithBackend(store))
	defer func() { _ = client.Close(ctx) }()

	store.Fail(context.DeadlineExceeded)
	_, err := client.TryAcquire(ctx, "import")
	store.Fail(nil)
	var failed *pglease.BackendError
	if errors.As(err, &failed) { // try again later; with a server's error, failed.SQLState says which
		fmt.Println(failed.Op, "failed:", errors.Is(err, context.DeadlineExceeded))
	}
	// Output:
	// acquire failed: true
}

func ExampleUnsupportedError() {
	client, err := pglease.New(db, pglease.WithHybrid()) // behind a transaction pooler, say
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.TryAcquire(ctx, "import")
	var unsupported *pglease.UnsupportedError
	if errors.As(err, &unsupported) { // trying again is useless
		log.Fatalf("%s; what to do: %s", unsupported.Finding, unsupported.Remedy)
	}
}

// tally is an Observer: it counts events by what they are.
type tally map[pglease.EventKind]int

func (t tally) Observe(_ context.Context, e pglease.Event) { t[e.Kind]++ }

func ExampleEventKind() {
	events := tally{} // not for several goroutines
	client := newClient(pglease.WithObserver(events))
	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	_ = lease.Release(ctx)
	_ = client.Close(ctx)
	fmt.Println(pglease.EventAcquire, events[pglease.EventAcquire], pglease.EventRelease, events[pglease.EventRelease])
	// Output:
	// acquire 1 release 1
}
