package pgleasetest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/pgleasetest"
)

// held returns a store, a client of it, and a lease of "reports" that the client holds.
func held(opts ...pglease.Option) (*pgleasetest.Memory, *pglease.Client, *pglease.Lease) {
	store := pgleasetest.NewMemory()
	client, err := pglease.New(nil, append(opts, pglease.WithBackend(store))...)
	if err != nil {
		log.Fatal(err)
	}
	lease, err := client.TryAcquire(context.Background(), "reports")
	if err != nil {
		log.Fatal(err)
	}
	return store, client, lease
}

func ExampleNewMemory() {
	store := pgleasetest.NewMemory() // a database of its own
	client, err := pglease.New(nil, pglease.WithBackend(store))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close(context.Background()) }()
	_, err = client.TryAcquire(context.Background(), "reports")
	fmt.Println(err)
	// Output:
	// <nil>
}

// The clock of the store goes forward: the holder, whose own clock does not, is overdue.
func ExampleMemory_Advance() {
	ctx := context.Background()
	store, client, lease := held(pglease.WithTTL(time.Minute))
	defer func() { _ = client.Close(ctx) }()

	store.Advance(time.Minute)
	fmt.Println(errors.Is(lease.Renew(ctx), pglease.ErrLost))
	// Output:
	// true
}

func ExampleMemory_Expire() {
	ctx := context.Background()
	store, client, _ := held()
	defer func() { _ = client.Close(ctx) }()

	fmt.Println(store.Expire("reports"), store.Expire("reports")) // the second time it was not held
	_, err := client.TryAcquire(ctx, "reports")
	fmt.Println(err)
	// Output:
	// true false
	// <nil>
}

func ExampleMemory_Delete() {
	ctx := context.Background()
	store, client, first := held()
	defer func() { _ = client.Close(ctx) }()

	store.Delete("reports")
	second, err := client.TryAcquire(ctx, "reports")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the token went on rising:", second.Token() > first.Token())
	// Output:
	// the token went on rising: true
}

func ExampleMemory_Fail() {
	ctx := context.Background()
	store, client, lease := held()
	defer func() { _ = client.Close(ctx) }()

	store.Fail(errors.New("connection refused"))
	fmt.Println(lease.Renew(ctx), lease.Err()) // one failure does not lose a lease
	store.Fail(nil)
	fmt.Println(lease.Renew(ctx))
	// Output:
	// pglease: renew: connection refused <nil>
	// <nil>
}

// A backend of one's own passes the suite.
func ExampleRun() {
	_ = func(t *testing.T) { // TestMyBackend
		pgleasetest.Run(t, func(*testing.T) pgleasetest.Harness {
			backend := pgleasetest.NewMemory() // yours
			return pgleasetest.Harness{
				NewClient: func(t *testing.T, opts ...pglease.Option) *pglease.Client {
					client, err := pglease.New(nil, append(opts, pglease.WithBackend(backend))...)
					if err != nil {
						t.Fatal(err)
					}
					return client
				},
				Expire: func(_ *testing.T, name string) { backend.Expire(name) },
				Delete: func(_ *testing.T, name string) { backend.Delete(name) },
				// Begin, if its Check looks at the transaction
			}
		})
	}
}
