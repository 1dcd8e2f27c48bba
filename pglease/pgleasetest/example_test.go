package pgleasetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/pgleasetest"
)

// sendReports is the application's own function: one process of many sends the reports, the others do nothing.
func sendReports(ctx context.Context, leases *pglease.Client, send func(context.Context) error) error {
	return leases.Do(ctx, "reports", func(ctx context.Context, _ *pglease.Lease) error {
		return send(ctx)
	}, pglease.SkipIfHeld())
}

// An application's function is tested without a database.
func Example() {
	ctx := context.Background()
	store := pgleasetest.NewMemory()
	here, err := pglease.New(nil, pglease.WithBackend(store))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = here.Close(ctx) }()
	elsewhere, err := pglease.New(nil, pglease.WithBackend(store))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = elsewhere.Close(ctx) }()

	send := func(context.Context) error { fmt.Println("sent"); return nil }

	// Nobody holds the lease.
	fmt.Println(sendReports(ctx, here, send))

	// Another process holds it.
	lease, err := elsewhere.TryAcquire(ctx, "reports")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sendReports(ctx, here, send))
	_ = lease.Release(ctx)

	// The database is away.
	store.Fail(errors.New("connection refused"))
	fmt.Println(sendReports(ctx, here, send))
	store.Fail(nil)

	// Output:
	// sent
	// <nil>
	// <nil>
	// pglease: acquire: connection refused
}

// A lease that is taken away while the function runs.
func ExampleMemory_Lose() {
	ctx := context.Background()
	store := pgleasetest.NewMemory()
	leases, err := pglease.New(nil, pglease.WithBackend(store), pglease.WithHeartbeatInterval(10*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = leases.Close(ctx) }()

	err = sendReports(ctx, leases, func(ctx context.Context) error {
		store.Lose("reports") // the next heartbeat finds out
		<-ctx.Done()
		return errors.New("sent half of them")
	})
	var lost *pglease.LostError
	if errors.As(err, &lost) {
		fmt.Println("lost", lost.Name+":", lost.Reason)
	}
	// Output:
	// lost reports: expired or taken away on the server
}

// Inside a testing/synctest bubble time costs nothing, and is exact.
func TestReportsStopWhenTheDatabaseIsAwayForTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := pgleasetest.NewMemory()
		leases, err := pglease.New(nil, pglease.WithBackend(store)) // TTL 30 s, of which 1 s is the safety margin
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = leases.Close(t.Context()) }()

		start := time.Now()
		err = sendReports(t.Context(), leases, func(ctx context.Context) error {
			time.Sleep(15 * time.Second) // renewed once, after 10 s
			store.Fail(errors.New("connection refused"))
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, pglease.ErrLost) {
			t.Errorf("error %v, want ErrLost", err)
		}
		if took := time.Since(start); took != 39*time.Second {
			t.Errorf("stopped after %v, want 10 s + 30 s - 1 s", took)
		}
	})
}
