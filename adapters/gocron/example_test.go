package pgleasegocron_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	pgleasegocron "github.com/pglease/pglease-go/adapters/gocron"
	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/pgleasetest"
)

// Each run of the job takes the lease of its name, so that of all processes one runs it.
func ExampleNewLocker() {
	ctx := context.Background()
	client, err := pglease.New(nil, pglease.WithBackend(pgleasetest.NewMemory())) // or pglease.New(db)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(ctx) }()

	locker := pgleasegocron.NewLocker(client, pglease.WithMinHold(30*time.Second))
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = scheduler.Shutdown() }() // before the client is closed

	ran := make(chan struct{})
	_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(func() {
		lease := locker.Lease("nightly-report")
		fmt.Println("holding", lease.Name()) // lease.Context() ends if the lease is lost
		close(ran)
	}), gocron.WithName("nightly-report"))
	if err != nil {
		fmt.Println(err)
		return
	}
	scheduler.Start()
	<-ran
	// Output:
	// holding nightly-report
}

// The scheduler of the process that leads runs all jobs; those of the others skip them.
func ExampleNewElector() {
	ctx := context.Background()
	client, err := pglease.New(nil, pglease.WithBackend(pgleasetest.NewMemory())) // or pglease.New(db)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(ctx) }()

	elector := pgleasegocron.NewElector(ctx, client, "scheduler")
	defer func() { _ = elector.Stop(ctx) }()
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = scheduler.Shutdown() }() // before the elector is stopped

	ran := make(chan struct{}, 1)
	_, err = scheduler.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(func() {
		select {
		case ran <- struct{}{}:
		default:
		}
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	scheduler.Start()
	<-ran
	fmt.Println("leads:", elector.IsLeader(ctx) == nil)
	// Output:
	// leads: true
}
