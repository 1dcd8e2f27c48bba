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

func ExampleClient_List() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	for _, name := range []string{"job/b", "job/a", "other"} {
		if _, err := client.TryAcquire(ctx, name); err != nil {
			log.Fatal(err)
		}
	}
	infos, err := client.List(ctx, pglease.WithPrefix("job/"))
	if err != nil {
		log.Fatal(err)
	}
	for _, info := range infos {
		fmt.Println(info.Name, info.Zombie(time.Minute))
	}
	// Output:
	// job/a false
	// job/b false
}

func ExampleWithExpired() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "job")
	if err != nil {
		log.Fatal(err)
	}
	_ = lease.Release(ctx)
	held, _ := client.List(ctx)
	all, _ := client.List(ctx, pglease.WithExpired())
	fmt.Println(len(held), len(all))
	// Output:
	// 0 1
}

func ExampleWithPrefix() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	leases, err := client.AcquireAll(ctx, []string{"a%", "ab"})
	if err != nil {
		log.Fatal(err)
	}
	infos, _ := client.List(ctx, pglease.WithPrefix("a%")) // no pattern: byte for byte
	fmt.Println(len(infos), len(leases))
	// Output:
	// 1 2
}

func ExampleWithLimit() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	if _, err := client.AcquireAll(ctx, []string{"a", "b", "c"}); err != nil {
		log.Fatal(err)
	}
	infos, _ := client.List(ctx, pglease.WithLimit(2))
	fmt.Println(infos[0].Name, infos[1].Name)
	// Output:
	// a b
}

func ExampleClient_ForceRelease() {
	store := pgleasetest.NewMemory()
	holder, _ := pglease.New(nil, pglease.WithBackend(store))
	operator, _ := pglease.New(nil, pglease.WithBackend(store))
	defer func() { _ = holder.Close(ctx); _ = operator.Close(ctx) }()

	lease, err := holder.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	fenced, err := operator.ForceRelease(ctx, "import")
	fmt.Println(fenced.Token == lease.Token(), err)

	next, err := operator.TryAcquire(ctx, "import")
	fmt.Println(next.Token() > lease.Token(), err)
	fmt.Println(errors.Is(lease.Renew(ctx), pglease.ErrLost)) // as its next heartbeat would have found out
	// Output:
	// true <nil>
	// true <nil>
	// true
}

func ExampleIfToken() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	// The term that an operator looked at has been followed by another: that one is left alone.
	_, err = client.ForceRelease(ctx, "import", pglease.IfToken(lease.Token()-1))
	fmt.Println(errors.Is(err, pglease.ErrHeld))
	// Output:
	// true
}

func ExampleClient_DeleteExpired() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "once-only")
	if err != nil {
		log.Fatal(err)
	}
	_ = lease.Release(ctx)
	deleted, err := client.DeleteExpired(ctx, 24*time.Hour)
	fmt.Println(deleted, err)
	// Output:
	// 0 <nil>
}

func ExampleClient_Zombies() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	for _, zombie := range client.Zombies() {
		fmt.Println(zombie.Kind, "of", zombie.Name, "should have ended at", zombie.Since)
	}
	fmt.Println(len(client.Zombies()))
	// Output:
	// 0
}

func ExampleClient_Close() {
	client := newClient()
	go func() {
		_ = client.Do(ctx, "worker", func(ctx context.Context, _ *pglease.Lease) error {
			<-ctx.Done() // context.Cause(ctx) is pglease.ErrClosed
			return nil
		})
	}()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // for the functions to drain
	defer cancel()
	fmt.Println(client.Close(ctx))
	_, err := client.TryAcquire(ctx, "worker")
	fmt.Println(err)
	// Output:
	// <nil>
	// pglease: client closed
}

func ExampleInfo() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	info := pglease.Info{Name: "import", ExpiresAt: now.Add(20 * time.Second), HeartbeatAt: now.Add(-40 * time.Second), ObservedAt: now}
	fmt.Println(info.Expired(), info.Remaining(), info.Zombie(30*time.Second))
	// Output:
	// false 20s true
}
