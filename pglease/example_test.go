package pglease_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/pgleasetest"
)

// The examples that run keep their leases in memory; with a database, it is pglease.New(db).
func newClient(opts ...pglease.Option) *pglease.Client {
	c, err := pglease.New(nil, append([]pglease.Option{pglease.WithBackend(pgleasetest.NewMemory())}, opts...)...)
	if err != nil {
		log.Fatal(err)
	}
	return c
}

var (
	ctx = context.Background()
	db  *sql.DB // of sql.Open("pgx", dsn) or sql.Open("postgres", dsn)
)

func ExampleNew() {
	client, err := pglease.New(db)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close(context.Background()) }()

	if err := client.EnsureSchema(ctx); err != nil {
		log.Fatal(err)
	}
	err = client.Do(ctx, "nightly-report", func(ctx context.Context, _ *pglease.Lease) error {
		return sendReport(ctx)
	}, pglease.SkipIfHeld())
	if err != nil {
		log.Print(err)
	}
}

func sendReport(context.Context) error { return nil }

func ExampleClient_EnsureSchema() {
	client, err := pglease.New(db)
	if err != nil {
		log.Fatal(err)
	}
	switch err := client.EnsureSchema(ctx); {
	case errors.As(err, new(*pglease.UnsupportedError)):
		log.Fatal(err) // it says what does not fit and what to do
	case err != nil:
		log.Print(err)
	}
}

func ExampleClient_TryAcquire() {
	client := newClient(pglease.WithOwner("web-1"))
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = lease.Release(context.Background()) }()
	fmt.Println("holding", lease.Name())

	_, err = client.TryAcquire(ctx, "import")
	var held *pglease.HeldError
	if errors.As(err, &held) {
		fmt.Println(held.Name, "is held by", held.Owner[:len("web-1")])
	}
	// Output:
	// holding import
	// import is held by web-1
}

func ExampleClient_Acquire() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	first, err := client.Acquire(ctx, "migration")
	if err != nil {
		log.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, func() { _ = first.Release(context.Background()) })

	ctx, cancel := context.WithTimeout(ctx, time.Minute) // for the wait alone: the lease outlives it
	defer cancel()
	second, err := client.Acquire(ctx, "migration")
	if err != nil {
		log.Fatal(err) // errors.Is(err, context.DeadlineExceeded), and pglease.ErrHeld if it was held to the end
	}
	defer func() { _ = second.Release(context.Background()) }()
	fmt.Println("token is higher:", second.Token() > first.Token())
	// Output:
	// token is higher: true
}

func ExampleClient_TryAcquireAny() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	partitions := []string{"partition-0", "partition-1"}
	for range 3 {
		lease, err := client.TryAcquireAny(ctx, partitions)
		if errors.Is(err, pglease.ErrHeld) {
			fmt.Println("all are taken")
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("working on one of", len(partitions))
		_ = lease // held until its Release
	}
	// Output:
	// working on one of 2
	// working on one of 2
	// all are taken
}

func ExampleClient_AcquireAny() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.AcquireAny(ctx, []string{"gpu-0", "gpu-1"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("one of them")
	_ = lease.Release(ctx)
	// Output:
	// one of them
}

func ExampleClient_AcquireAll() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	accounts, err := client.AcquireAll(ctx, []string{"account-7", "account-3"})
	if err != nil {
		log.Fatal(err) // nothing is held
	}
	for _, lease := range accounts {
		fmt.Println(lease.Name())
	}
	fmt.Println(accounts.Release(ctx))
	// Output:
	// account-3
	// account-7
	// <nil>
}

func ExampleLeases_Release() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	leases, err := client.AcquireAll(ctx, []string{"a", "b"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(leases.Release(ctx))
	// Output:
	// <nil>
}

func ExampleClient_Do() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	err := client.Do(ctx, "cleanup", func(ctx context.Context, lease *pglease.Lease) error {
		fmt.Println("cleaning") // for as long as ctx is not done
		return nil
	})
	fmt.Println(err)
	// Output:
	// cleaning
	// <nil>
}

func ExampleClient_Singleton() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	// For a scheduler that runs the job on every machine at once.
	job := client.Singleton("hourly", func(context.Context) error {
		fmt.Println("running")
		return nil
	}, pglease.SkipIfHeld())
	fmt.Println(job(ctx))
	// Output:
	// running
	// <nil>
}

func ExampleClient_Lead() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	ctx, stop := context.WithCancel(ctx) // signal.NotifyContext, in a program
	err := client.Lead(ctx, "scheduler", func(ctx context.Context, lease *pglease.Lease) error {
		fmt.Println("leading")
		stop()
		<-ctx.Done() // stopped, or the lease is lost: then Lead campaigns again
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// leading
	// <nil>
}

func ExampleClient_Go() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	task := client.Go(ctx, "indexer", func(ctx context.Context, lease *pglease.Lease) error {
		fmt.Println("indexing")
		<-ctx.Done()
		return nil
	}, pglease.Campaign())
	for task.Lease() == nil { // not yet the leader
		time.Sleep(time.Millisecond)
	}
	task.Stop()
	fmt.Println(task.Wait())
	// Output:
	// indexing
	// <nil>
}

func ExampleClient_Get() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	_, err := client.Get(ctx, "import")
	fmt.Println(errors.Is(err, pglease.ErrNotFound))

	lease, err := client.TryAcquire(ctx, "import", pglease.WithMetadata(map[string]string{"file": "a.csv"}))
	if err != nil {
		log.Fatal(err)
	}
	info, err := client.Get(ctx, "import")
	fmt.Println(info.Expired(), info.Metadata["file"], err)

	_ = lease.Release(ctx)
	info, err = client.Get(ctx, "import")
	fmt.Println(info.Expired(), err)
	// Output:
	// true
	// false a.csv <nil>
	// true <nil>
}
