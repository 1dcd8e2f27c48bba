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

func ExampleLease_Name() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquireAny(ctx, []string{"partition-7"}) // and others
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("working on", lease.Name())
	// Output:
	// working on partition-7
}

func ExampleLease_String() {
	client := newClient(pglease.WithOwner("web-1"))
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.String() == fmt.Sprintf("%q of %s, token %d", lease.Name(), lease.Owner(), lease.Token()))
	// Output:
	// true
}

func ExampleLease_Owner() {
	client := newClient(pglease.WithOwner("web-1"))
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Owner()[:len("web-1-")], "and 8 hex digits:", len(lease.Owner()) == len("web-1-")+8)
	// Output:
	// web-1- and 8 hex digits: true
}

// A store that is not the database refuses a token that is lower than one it has seen.
func ExampleLease_Token() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	var seen int64
	write := func(token int64) error {
		if token < seen {
			return errors.New("from an earlier term")
		}
		seen = token
		return nil
	}
	first, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	_ = first.Release(ctx)
	second, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(write(second.Token()))
	fmt.Println(write(first.Token())) // by somebody who has slept
	// Output:
	// <nil>
	// from an earlier term
}

// Both are the server's times: good for people and logs, not to be compared with a clock of one's own.
func ExampleLease_ExpiresAt() {
	client := newClient(pglease.WithTTL(time.Minute))
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.ExpiresAt().Sub(lease.AcquiredAt()))
	// Output:
	// 1m0s
}

func ExampleLease_AcquiredAt() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.AcquiredAt().Location())
	// Output:
	// UTC
}

// A step that cannot be interrupted begins only if it can end in time.
func ExampleLease_Deadline() {
	client := newClient(pglease.WithTTL(time.Minute))
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	const step = 10 * time.Second
	fmt.Println("time for a step:", time.Until(lease.Deadline()) > step)
	// Output:
	// time for a step: true
}

func ExampleLease_Context() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	work := lease.Context() // for everything that is done under the lease
	_ = lease.Release(ctx)
	fmt.Println(work.Err(), "because:", context.Cause(work))
	// Output:
	// context canceled because: pglease: lease released
}

func ExampleLease_Done() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, func() { _ = lease.Release(ctx) })
	select {
	case <-time.After(time.Hour): // the next piece of work
	case <-lease.Done():
		fmt.Println(lease.Err())
	}
	// Output:
	// pglease: lease released
}

func ExampleTask_Lease() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	leading := make(chan struct{})
	task := client.Go(ctx, "leader", func(ctx context.Context, _ *pglease.Lease) error {
		close(leading)
		<-ctx.Done()
		return nil
	}, pglease.Campaign())
	<-leading
	fmt.Println("leads:", task.Lease() != nil)
	task.Stop()
	<-task.Done()
	fmt.Println("leads:", task.Lease() != nil)
	// Output:
	// leads: true
	// leads: false
}

func ExampleTask_Wait() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	task := client.Go(ctx, "import", func(context.Context, *pglease.Lease) error { return errors.New("no such file") })
	fmt.Println(task.Wait())
	// Output:
	// no such file
}

func ExampleTask_Done() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	task := client.Go(ctx, "import", func(context.Context, *pglease.Lease) error { return nil })
	select {
	case <-task.Done():
		fmt.Println("done:", task.Wait())
	case <-time.After(time.Minute):
		fmt.Println("still running")
	}
	// Output:
	// done: <nil>
}

// info is what Get returns of a lease that was acquired a moment ago.
func info(store *pgleasetest.Memory, client *pglease.Client) pglease.Info {
	if _, err := client.TryAcquire(ctx, "import"); err != nil {
		log.Fatal(err)
	}
	store.Advance(45 * time.Second)
	info, err := client.Get(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	return info
}

func ExampleInfo_Expired() {
	store := pgleasetest.NewMemory()
	client := newClient(pglease.WithBackend(store), pglease.WithTTL(time.Minute))
	defer func() { _ = client.Close(ctx) }()

	fmt.Println(info(store, client).Expired()) // 45 s after its last heartbeat
	store.Advance(15 * time.Second)
	later, err := client.Get(ctx, "import")
	fmt.Println(later.Expired(), err)
	// Output:
	// false
	// true <nil>
}

func ExampleInfo_Remaining() {
	store := pgleasetest.NewMemory()
	client := newClient(pglease.WithBackend(store), pglease.WithTTL(time.Minute))
	defer func() { _ = client.Close(ctx) }()

	fmt.Println(info(store, client).Remaining().Round(time.Second), "unless it is renewed")
	// Output:
	// 15s unless it is renewed
}

func ExampleInfo_Zombie() {
	store := pgleasetest.NewMemory()
	client := newClient(pglease.WithBackend(store), pglease.WithTTL(time.Minute))
	defer func() { _ = client.Close(ctx) }()

	info := info(store, client)
	fmt.Println("silent for 30 s:", info.Zombie(30*time.Second), "for 50 s:", info.Zombie(50*time.Second))
	// Output:
	// silent for 30 s: true for 50 s: false
}
