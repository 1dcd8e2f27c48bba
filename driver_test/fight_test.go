package driver_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// ring is what a fight is about: a counter that only survives if one at a time reads and writes it, how many are inside,
// and every term in the order in which they came in.
const ring = `
	CREATE TABLE counter (n bigint NOT NULL);
	INSERT INTO counter VALUES (0);
	CREATE TABLE presence (inside int NOT NULL);
	INSERT INTO presence VALUES (0);
	CREATE TABLE terms (id bigserial PRIMARY KEY, token bigint NOT NULL, who text NOT NULL)`

// inside does what only one may do at a time, and pauses between the read and the write. It fails if it is not alone.
func inside(ctx context.Context, db *sql.DB, who string, token int64, pause time.Duration) error {
	if _, err := db.ExecContext(ctx, "INSERT INTO terms (token, who) VALUES ($1, $2)", token, who); err != nil {
		return err
	}
	var n int
	if err := db.QueryRowContext(ctx, "UPDATE presence SET inside = inside + 1 RETURNING inside").Scan(&n); err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("%s: %d are inside at once", who, n)
	}
	var count int64
	if err := db.QueryRowContext(ctx, "SELECT n FROM counter").Scan(&count); err != nil {
		return err
	}
	time.Sleep(pause) // the work
	if _, err := db.ExecContext(ctx, "UPDATE counter SET n = $1", count+1); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, "UPDATE presence SET inside = inside - 1")
	return err
}

// judge checks what the ring says of a fight of that many rounds.
func (e *env) judge(rounds int) {
	e.t.Helper()
	if n := value[int](e, "SELECT n::int FROM counter"); n != rounds {
		e.t.Errorf("the counter says %d after %d rounds: updates were lost", n, rounds)
	}
	if n := value[int](e, "SELECT inside FROM presence"); n != 0 {
		e.t.Errorf("%d are still inside", n)
	}
	if n := value[int](e, `SELECT count(*)::int FROM (SELECT token, lag(token) OVER (ORDER BY id) AS last FROM terms WHERE token > 0) AS t
		WHERE token <= last`); n != 0 {
		e.t.Errorf("%d tokens are not higher than the one before", n)
	}
}

// fight acquires, works and releases until ctx ends, and returns how often.
func fight(ctx context.Context, c *pglease.Client, db *sql.DB, who string, rnd *rand.Rand) (rounds int, err error) {
	for {
		l, err := c.Acquire(ctx, "ring")
		switch {
		case ctx.Err() != nil && err != nil:
			return rounds, nil
		case err != nil:
			return rounds, err
		}
		err = inside(context.WithoutCancel(ctx), db, who, l.Token(), time.Duration(rnd.IntN(4000))*time.Microsecond)
		if err == nil {
			err = l.Err()
		}
		if err := errors.Join(err, l.Release(context.WithoutCancel(ctx))); err != nil {
			return rounds, err
		}
		rounds++
	}
}

// fightTask is the task of a process that fights.
type fightTask struct {
	oneTask
	Seed uint64
}

var fightOptions = []pglease.Option{pglease.WithTTL(10 * time.Second), pglease.WithPollInterval(10 * time.Millisecond)}

func playFight(ctx context.Context, encoded []byte) error {
	var task fightTask
	if err := json.Unmarshal(encoded, &task); err != nil {
		return err
	}
	db, done, err := kindOf(task.Driver).open(task.DSN, nil)
	if err != nil {
		return err
	}
	defer done()
	defer db.Close()
	c, err := pglease.New(db, fightOptions...)
	if err != nil {
		return err
	}
	rounds, err := fight(ctx, c, db, "process", rand.New(rand.NewPCG(task.Seed, 0)))
	if err == nil {
		fmt.Println(rounds)
	}
	return errors.Join(err, c.Close(context.WithoutCancel(ctx)))
}

// TestOneAtATime: 16 goroutines and 4 processes fight for one name for 10 s. No overlap, no token twice, tokens rise in the
// order of the grants.
func TestOneAtATime(t *testing.T) {
	e := newEnv(t).table()
	e.exec(ring)
	fightFor(t, e, 10*time.Second, 16, 4, "")
}

// fightFor has goroutines and processes fight on connections made from DSNs with that end.
func fightFor(t *testing.T, e *env, d time.Duration, goroutines, processes int, dsnEnd string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	children := make([]*child, processes)
	for i := range children {
		children[i] = spawn(t, "fight", fightTask{oneTask{two[i%len(two)].name, e.dsn() + dsnEnd}, seed + uint64(i)})
	}
	var mu sync.Mutex
	rounds, processRounds := 0, 0
	var wg sync.WaitGroup
	for i := range min(goroutines, 4) {
		db := e.open(t, three[i%len(three)], e.dsn()+dsnEnd)
		c := client(t, db, fightOptions...)
		for j := i; j < goroutines; j += 4 {
			wg.Go(func() {
				n, err := fight(ctx, c, db, "goroutine", rand.New(rand.NewPCG(seed, uint64(j))))
				mu.Lock()
				defer mu.Unlock()
				rounds += n
				if err != nil {
					t.Error(err)
					cancel()
				}
			})
		}
	}
	wg.Wait()
	for _, c := range children {
		c.stop()
		if c.lines.Scan() {
			n, _ := strconv.Atoi(c.lines.Text())
			processRounds += n
		}
		if err := c.wait(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d rounds of goroutines, %d of processes", rounds, processRounds)
	if rounds == 0 || processes > 0 && processRounds == 0 {
		t.Error("not all have taken part")
	}
	e.judge(rounds + processRounds)
}
