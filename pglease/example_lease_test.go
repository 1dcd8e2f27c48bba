package pglease_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/pgleasetest"
)

func ExampleLease() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "poller")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = lease.Release(context.Background()) }()

	for n := 1; lease.Err() == nil; n++ { // looks at the clocks, too
		fmt.Println("step", n)
		if n == 2 {
			_ = lease.Release(ctx)
		}
	}
	<-lease.Done()
	fmt.Println(context.Cause(lease.Context()))
	// Output:
	// step 1
	// step 2
	// pglease: lease released
}

func ExampleLease_Do() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	err = lease.Do(ctx, func(ctx context.Context) error {
		fmt.Println("importing")
		return nil
	})
	fmt.Println(err, lease.Err())
	// Output:
	// importing
	// <nil> pglease: lease released
}

func ExampleLease_Renew() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	before := lease.Deadline()
	fmt.Println(lease.Renew(ctx)) // the heartbeat does it by itself
	fmt.Println(lease.Deadline().After(before))
	// Output:
	// <nil>
	// true
}

func ExampleLease_Release() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Release(ctx))
	fmt.Println(lease.Release(ctx)) // idempotent
	// Output:
	// <nil>
	// <nil>
}

func ExampleLease_Err() {
	store := pgleasetest.NewMemory()
	client, err := pglease.New(nil, pglease.WithBackend(store))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	store.Expire("import")
	_ = lease.Renew(ctx)
	var lost *pglease.LostError
	if errors.As(lease.Err(), &lost) {
		fmt.Println("lost", lost.Name+":", lost.Reason)
	}
	// Output:
	// lost import: expired or taken away on the server
}

func ExampleLease_CheckTx() {
	transfer := func(lease *pglease.Lease) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := lease.CheckTx(ctx, tx); err != nil { // the first statement
			return err
		}
		// Nobody else can have the lease before this transaction ends, whatever happens to this process.
		if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 1 WHERE id = 7"); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = transfer
}

func ExampleLease_CheckQuery() {
	// For a transaction that is not a *sql.Tx, such as pgx.Tx: one row of one bool.
	check := func(lease *pglease.Lease, queryRow func(query string, args ...any) interface{ Scan(...any) error }) error {
		query, args := lease.CheckQuery()
		var held bool
		if err := queryRow(query, args...).Scan(&held); err != nil {
			return err
		}
		if !held {
			return pglease.ErrLost
		}
		return lease.Err()
	}
	_ = check
}

func ExampleTryLockTx() {
	refresh := func() error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		locked, err := pglease.TryLockTx(ctx, tx, "refresh-view")
		if err != nil || !locked {
			return err
		}
		if _, err := tx.ExecContext(ctx, "REFRESH MATERIALIZED VIEW totals"); err != nil {
			return err
		}
		return tx.Commit() // and the lock is gone
	}
	_ = refresh
}

func ExampleLockTx() {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := pglease.LockTx(ctx, tx, "account-7"); err != nil { // waits
		log.Print(err)
	}
}

func ExampleTask() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	task := client.Go(ctx, "report", func(context.Context, *pglease.Lease) error {
		return errors.New("no paper")
	})
	<-task.Done()
	fmt.Println(task.Wait())
	fmt.Println(task.Lease())
	// Output:
	// no paper
	// <nil>
}

func ExampleTask_Stop() {
	client := newClient()
	defer func() { _ = client.Close(ctx) }()

	task := client.Go(ctx, "report", func(ctx context.Context, _ *pglease.Lease) error {
		<-ctx.Done()
		return ctx.Err()
	})
	task.Stop()
	fmt.Println(task.Wait()) // a clean stop
	// Output:
	// <nil>
}
