package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// guardTask is the task of a process whose writes are guarded.
type guardTask struct {
	oneTask
	Seed uint64
}

// playGuard writes under a lease with so long pauses that the lease is often lost before the write, during the transaction or
// before its commit. It does not look at the lease: the fence alone must refuse what is late. It prints a line for each
// transaction: committed or refused.
func playGuard(ctx context.Context, encoded []byte) error {
	var task guardTask
	if err := json.Unmarshal(encoded, &task); err != nil {
		return err
	}
	db, done, err := kindOf(task.Driver).open(task.DSN, nil)
	if err != nil {
		return err
	}
	defer done()
	defer db.Close()
	// The answer to the first heartbeat comes after the trust deadline, so a lease that is not released is soon lost.
	c, err := pglease.New(db, pglease.WithTTL(200*time.Millisecond), pglease.WithHeartbeatInterval(180*time.Millisecond-50*time.Microsecond),
		pglease.WithSafetyMargin(20*time.Millisecond), pglease.WithPollInterval(5*time.Millisecond), pglease.WithRetry(1, time.Millisecond))
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(task.Seed, 0))
	whole := context.WithoutCancel(ctx)
	pause := func() { // most of them short, the others beyond the TTL
		limit := 5
		if rnd.IntN(4) == 0 {
			limit = 300
		}
		time.Sleep(time.Duration(rnd.IntN(limit)) * time.Millisecond)
	}
	write := func(l *pglease.Lease, n int) error {
		tx, err := db.BeginTx(whole, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		query, args := l.CheckQuery()
		var current bool
		if err := tx.QueryRowContext(whole, query, args...).Scan(&current); err != nil {
			return err
		}
		if !current {
			return pglease.ErrLost
		}
		pause()
		if _, err := tx.ExecContext(whole, "INSERT INTO writes (token, n) VALUES ($1, $2)", l.Token(), n); err != nil {
			return err
		}
		pause()
		return tx.Commit()
	}
	for ctx.Err() == nil {
		l, err := c.Acquire(ctx, "guarded")
		if ctx.Err() != nil && err != nil {
			break
		}
		if err != nil {
			var b *pglease.BackendError
			if errors.As(err, &b) && b.SQLState == "" { // a grant that came too late
				continue
			}
			return err
		}
		for n := range 1 + rnd.IntN(3) {
			pause()
			switch err := write(l, n); {
			case err == nil:
				fmt.Println("committed")
			case errors.Is(err, pglease.ErrLost):
				fmt.Println("refused")
			default:
				return err
			}
		}
		if rnd.IntN(2) == 0 {
			_ = l.Release(whole)
		}
	}
	return c.Close(whole)
}

// TestGuardedWritesNeverInterleave: in the order of the writes, which the fence makes the order of the terms, no token comes
// back after a later one, whatever the writers' pauses.
func TestGuardedWritesNeverInterleave(t *testing.T) {
	e := newEnv(t).table()
	e.exec("CREATE TABLE writes (id bigserial PRIMARY KEY, token bigint NOT NULL, n int NOT NULL)")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	children := make([]*child, 3)
	for i := range children {
		children[i] = spawn(t, "guard", guardTask{oneTask{two[i%len(two)].name, e.dsn()}, seed + uint64(i)})
	}
	said := make(chan string, 1000)
	for _, c := range children {
		go func() {
			for c.lines.Scan() {
				said <- c.lines.Text()
			}
			said <- "ended"
		}()
	}
	outcomes := map[string]int{}
	// For some seconds, and until there was enough of both.
	for end := time.Now().Add(12 * time.Second); time.Now().Before(end) || outcomes["committed"] < 10 || outcomes["refused"] < 1; {
		outcomes[await(t, "a write", said)]++
		if outcomes["ended"] > 0 {
			break
		}
	}
	for _, c := range children {
		c.stop()
	}
	for outcomes["ended"] < len(children) {
		outcomes[await(t, "the end of a process", said)]++
	}
	for _, c := range children {
		if err := c.wait(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%v", outcomes)
	if n := value[int](e, "SELECT count(*)::int FROM writes"); n != outcomes["committed"] {
		t.Errorf("%d writes in the table, %d were committed", n, outcomes["committed"])
	}
	if n := value[int](e, `SELECT count(*)::int FROM (SELECT token, n, lag(token) OVER w AS last_token, lag(n) OVER w AS last
		FROM writes WINDOW w AS (ORDER BY id)) AS t WHERE token < last_token OR token = last_token AND n <= last`); n != 0 {
		t.Errorf("%d writes came after a write of a later term", n)
	}
}
