package pglease_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/pgleasetest"
)

func ExampleWithTTL() {
	client := newClient(pglease.WithTTL(time.Minute)) // for all its leases
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "quick", pglease.WithTTL(10*time.Second)) // for this one
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.ExpiresAt().Sub(lease.AcquiredAt()))
	// Output:
	// 10s
}

func ExampleWithHeartbeatInterval() {
	client := newClient(pglease.WithTTL(time.Minute), pglease.WithHeartbeatInterval(5*time.Second))
	defer func() { _ = client.Close(ctx) }()

	_, err := pglease.New(db, pglease.WithBackend(pgleasetest.NewMemory()), pglease.WithHeartbeatInterval(time.Minute))
	fmt.Println(err)
	// Output:
	// pglease: the heartbeat interval (1m0s) must be shorter than the TTL (30s)
}

func ExampleWithSafetyMargin() {
	client := newClient(pglease.WithTTL(30*time.Second), pglease.WithSafetyMargin(5*time.Second))
	defer func() { _ = client.Close(ctx) }()

	start := time.Now()
	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Deadline().Sub(start).Round(time.Second)) // without another renewal
	// Output:
	// 25s
}

func ExampleWithMinHold() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	// Every machine runs this at midnight, by its own clock, which may be a minute behind.
	job := client.Singleton("midnight", func(context.Context) error {
		fmt.Println("running")
		return nil
	}, pglease.SkipIfHeld(), pglease.WithMinHold(2*time.Minute))
	_ = job(ctx)
	_ = job(ctx)
	// Output:
	// running
}

func ExampleWithOnLost() {
	store := pgleasetest.NewMemory()
	told := make(chan struct{})
	client, err := pglease.New(nil, pglease.WithBackend(store), pglease.WithOnLost(func(lease *pglease.Lease, err error) {
		fmt.Println("lost", lease.Name(), errors.Is(err, pglease.ErrLost))
		close(told)
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	store.Lose("import")
	_ = lease.Renew(ctx)
	<-told
	// Output:
	// lost import true
}

func ExampleWithMetadata() {
	client := newClient(pglease.WithMetadata(map[string]string{"team": "billing"}))
	defer func() { _ = client.Close(ctx) }()

	if _, err := client.TryAcquire(ctx, "import", pglease.WithMetadata(map[string]string{"file": "a.csv"})); err != nil {
		log.Fatal(err)
	}
	info, err := client.Get(ctx, "import")
	fmt.Println(info.Metadata["team"], info.Metadata["file"], err)
	// Output:
	// billing a.csv <nil>
}

func ExampleWithPollInterval() {
	client := newClient(pglease.WithPollInterval(10 * time.Second)) // of those who wait for a holder in another process
	defer func() { _ = client.Close(ctx) }()
}

func ExampleWithOwner() {
	client := newClient(pglease.WithOwner("web-1"))
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Owner()[:6], len(lease.Owner()))
	// Output:
	// web-1- 14
}

func ExampleWithBackend() {
	client, err := pglease.New(nil, pglease.WithBackend(pgleasetest.NewMemory()))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.Close(ctx))
	// Output:
	// <nil>
}

func ExampleWithHybrid() {
	client, err := pglease.New(db, pglease.WithHybrid(), pglease.WithSessionCheck(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close(context.Background()) }()
}

func ExampleWithSessionCheck() {
	_, _ = pglease.New(db, pglease.WithHybrid(), pglease.WithSessionCheck(500*time.Millisecond))
}

func ExampleWithTakeoverDelay() {
	// Never early: a successor waits until the row has expired.
	_, _ = pglease.New(db, pglease.WithHybrid(), pglease.WithTTL(10*time.Second), pglease.WithTakeoverDelay(10*time.Second))
}

func ExampleWithLogger() {
	logger, err := zap.NewProduction()
	if err != nil {
		log.Fatal(err)
	}
	client := newClient(pglease.WithLogger(logger))
	defer func() { _ = client.Close(ctx) }()
}

func ExampleWithSlog() {
	client := newClient(pglease.WithSlog(slog.New(slog.NewJSONHandler(os.Stderr, nil))))
	defer func() { _ = client.Close(ctx) }()
}

func ExampleWithSecrets() {
	store := pgleasetest.NewMemory()
	client, err := pglease.New(nil, pglease.WithBackend(store), pglease.WithSecrets("correct horse"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close(ctx) }()

	store.Fail(errors.New("the server does not know correct horse"))
	_, err = client.Get(ctx, "import")
	fmt.Println(err)
	// Output:
	// pglease: get: the server does not know xxxxx
}

type counter map[pglease.EventKind]int

func (c counter) Observe(_ context.Context, e pglease.Event) { c[e.Kind]++ }

func ExampleWithObserver() {
	count := make(counter) // a real one is safe for concurrent use
	client := newClient(pglease.WithObserver(count))
	defer func() { _ = client.Close(ctx) }()

	_ = client.Do(ctx, "import", func(context.Context, *pglease.Lease) error { return nil })
	fmt.Println(count[pglease.EventAcquire], count[pglease.EventRelease])
	// Output:
	// 1 1
}

func ExampleWithRetry() {
	client := newClient(pglease.WithRetry(5, 50*time.Millisecond)) // attempts a heartbeat, and the first pause
	defer func() { _ = client.Close(ctx) }()
}

func ExampleSkipIfHeld() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	if _, err := client.TryAcquire(ctx, "import"); err != nil {
		log.Fatal(err)
	}
	run := func(context.Context, *pglease.Lease) error { fmt.Println("importing"); return nil }
	fmt.Println(client.Do(ctx, "import", run, pglease.SkipIfHeld()))
	fmt.Println(errors.Is(client.Do(ctx, "import", run), pglease.ErrHeld))
	// Output:
	// <nil>
	// true
}

func ExampleWait() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, func() { _ = lease.Release(context.Background()) })
	err = client.Do(ctx, "import", func(context.Context, *pglease.Lease) error {
		fmt.Println("importing")
		return nil
	}, pglease.Wait())
	fmt.Println(err)
	// Output:
	// importing
	// <nil>
}

func ExampleWaitFor() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	if _, err := client.TryAcquire(ctx, "import"); err != nil {
		log.Fatal(err)
	}
	err := client.Do(ctx, "import", func(context.Context, *pglease.Lease) error { return nil }, pglease.WaitFor(10*time.Millisecond))
	fmt.Println(errors.Is(err, pglease.ErrHeld))
	// Output:
	// true
}

func ExampleCampaign() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	task := client.Go(ctx, "leader", func(context.Context, *pglease.Lease) error {
		fmt.Println("leading")
		return nil // resigns
	}, pglease.Campaign())
	fmt.Println(task.Wait())
	// Output:
	// leading
	// <nil>
}
