package driver_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/pyworker"
	"github.com/pglease/pglease-go/pglease"
)

func init() { roles["mixed worker"] = playMixed }

// mixedTask is the task of a process that uses a name together with others, of all kinds.
type mixedTask struct {
	oneTask
	Kind string // "hybrid", "table", "python", "pooled"
	Who  string
	Name string
	TTL  time.Duration
	Seed uint64
}

// mixedNews is a line of what such a process prints: that it believed to hold, at that instant of the machine's one clock.
type mixedNews struct {
	Term  int   // numbers the terms of this process
	Token int64 // 0 of a Python worker's
	At    int64 // nanoseconds of Unix time
	What  string
}

const (
	granted   = "granted"
	trusted   = "trusted"
	refused   = "refused" // with an *UnsupportedError
	misjudged = "misjudged"
)

func say(n mixedNews) {
	line, _ := json.Marshal(n)
	fmt.Println(string(line))
}

func playMixed(ctx context.Context, encoded []byte) error {
	var task mixedTask
	if err := json.Unmarshal(encoded, &task); err != nil {
		return err
	}
	db, done, err := kindOf(task.Driver).open(task.DSN, nil)
	if err != nil {
		return err
	}
	defer done()
	defer db.Close()
	rnd := rand.New(rand.NewPCG(task.Seed, 0))
	if task.Kind == "python" {
		return task.python(ctx, db, rnd)
	}
	opts := []pglease.Option{pglease.WithTTL(task.TTL), pglease.WithPollInterval(50 * time.Millisecond)}
	if task.Kind != "table" {
		// The bound is so long that a loaded machine keeps it.
		opts = append(opts, hybrid(pglease.WithSessionCheck(200*time.Millisecond), pglease.WithTakeoverDelay(time.Second))...)
	}
	c, err := pglease.New(db, opts...)
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	for term := 1; ctx.Err() == nil; term++ {
		l, err := task.acquire(ctx, c, rnd)
		if err != nil {
			if errors.As(err, new(*pglease.UnsupportedError)) {
				say(mixedNews{What: refused})
			}
			time.Sleep(time.Duration(1+rnd.IntN(50)) * time.Millisecond)
			continue
		}
		if task.Kind == "pooled" {
			say(mixedNews{What: misjudged, Token: l.Token()})
		}
		what := granted
		for end := time.Now().Add(time.Duration(rnd.IntN(1200)) * time.Millisecond); time.Now().Before(end) && ctx.Err() == nil; {
			at := time.Now()
			if l.Err() != nil {
				break
			}
			say(mixedNews{Term: term, Token: l.Token(), At: at.UnixNano(), What: what})
			what = trusted
			time.Sleep(3 * time.Millisecond)
		}
		_ = l.Release(context.Background())
		time.Sleep(time.Duration(rnd.IntN(30)) * time.Millisecond)
	}
	return nil
}

func (task mixedTask) acquire(ctx context.Context, c *pglease.Client, rnd *rand.Rand) (*pglease.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(1+rnd.IntN(8000))*time.Millisecond)
	defer cancel()
	if rnd.IntN(3) == 0 {
		return c.TryAcquire(ctx, task.Name)
	}
	return c.Acquire(ctx, task.Name)
}

// python trusts as its protocol does: until its clock has reached the expiry that it has written, less a margin.
func (task mixedTask) python(ctx context.Context, db *sql.DB, rnd *rand.Rand) error {
	w := &pyworker.Worker{DB: db, Owner: task.Who, TTL: task.TTL}
	margin := task.TTL / 10
	for term := 1; ctx.Err() == nil; term++ {
		begun := time.Now()
		if ok, err := w.Acquire(ctx, task.Name); !ok || err != nil {
			time.Sleep(time.Duration(20+rnd.IntN(100)) * time.Millisecond)
			continue
		}
		what := granted
		for end := time.Now().Add(time.Duration(rnd.IntN(1500)) * time.Millisecond); time.Now().Before(end) && ctx.Err() == nil; {
			if at := time.Now(); at.Sub(begun) < task.TTL-margin {
				say(mixedNews{Term: term, At: at.UnixNano(), What: what})
				what = trusted
			} else {
				break
			}
			if next := time.Now(); next.Sub(begun) > task.TTL/3 {
				if ok, err := w.Heartbeat(ctx, task.Name); !ok && err == nil {
					break
				} else if ok {
					begun = next
				}
			}
			time.Sleep(3 * time.Millisecond)
		}
		if rnd.IntN(5) > 0 { // or else it leaves the lease to expire
			_ = w.Release(ctx, task.Name)
		}
		time.Sleep(time.Duration(rnd.IntN(200)) * time.Millisecond)
	}
	return nil
}
