//go:build unix

package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	zapobserver "go.uber.org/zap/zaptest/observer"

	"github.com/pglease/pglease-go/pglease"
)

func init() { roles["hybrid holder"] = playHybridHolder }

// holderTask is the task of a process that holds a hybrid lease, for as long as it is let.
type holderTask struct {
	oneTask
	Name string
	TTL  time.Duration
}

// holderNews is what it prints: when it holds, and what it finds when it wakes after a stop.
type holderNews struct {
	Token    int64
	Stopped  time.Duration
	FirstErr string // of the first look at the lease
	Lost     bool
	CheckErr string // of the first guarded transaction
}

func playHybridHolder(ctx context.Context, encoded []byte) error {
	var task holderTask
	if err := json.Unmarshal(encoded, &task); err != nil {
		return err
	}
	db, done, err := kindOf(task.Driver).open(task.DSN, nil)
	if err != nil {
		return err
	}
	defer done()
	defer db.Close()
	c, err := pglease.New(db, hybrid(pglease.WithTTL(task.TTL))...)
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	l, err := c.Acquire(ctx, task.Name)
	if err != nil {
		return err
	}
	tell := func(n holderNews) {
		line, _ := json.Marshal(n)
		fmt.Println(string(line))
	}
	last := time.Now()
	tell(holderNews{Token: l.Token()})
	for ; ctx.Err() == nil; last = time.Now() {
		time.Sleep(5 * time.Millisecond)
		stopped := time.Since(last)
		if stopped < time.Second {
			continue
		}
		first := l.Err()
		n := holderNews{Token: l.Token(), Stopped: stopped, FirstErr: fmt.Sprint(first), Lost: errors.Is(first, pglease.ErrLost)}
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		n.CheckErr = fmt.Sprint(l.CheckTx(ctx, tx))
		_ = tx.Rollback()
		tell(n)
	}
	return nil
}

// news reads the next line of a holder.
func (c *child) news(t *testing.T) (n holderNews) {
	t.Helper()
	lines := make(chan bool, 1)
	go func() { lines <- c.lines.Scan() }()
	if !await(t, "a line of the holder", lines) {
		t.Fatalf("the holder has ended: %v", c.wait())
	}
	if err := json.Unmarshal(c.lines.Bytes(), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (c *child) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// mustWakeLost has a stopped holder go on: its first look says lost, and its fence refuses (C5).
func mustWakeLost(t *testing.T, c *child, token int64) {
	t.Helper()
	c.signal(t, syscall.SIGCONT)
	n := c.news(t)
	if !n.Lost || n.Token != token || !strings.Contains(n.CheckErr, "lost") {
		t.Errorf("on waking: %+v; want lost, from Err and CheckTx", n)
	}
	c.stop()
	if err := c.wait(); err != nil {
		t.Error(err)
	}
}

const stoppedTTL = 2 * time.Second

func holder(t *testing.T, e *env, k kind, dsn string) (*child, int64) {
	t.Helper()
	c := spawn(t, "hybrid holder", holderTask{oneTask{k.name, dsn}, e.schema, stoppedTTL})
	return c, c.news(t).Token
}

// TestStoppedHolderIsEvicted: its session lives and keeps the lock, its row does not.
func TestStoppedHolderIsEvicted(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		c, token := holder(t, e, k, e.dsn())
		got := e.waits(t, hybridClient(t, e.hybridPool(t, k, e.dsn())))
		stopped := time.Now()
		c.signal(t, syscall.SIGSTOP)
		l := await(t, "the next holder", got)
		took := time.Since(stopped)
		t.Logf("TTL %v: the next one holds after %v", stoppedTTL, took)
		if took > stoppedTTL+time.Second {
			t.Errorf("the next one holds after %v, want TTL %v and 1 s", took, stoppedTTL)
		}
		if l.Token() <= token {
			t.Errorf("token %d after %d", l.Token(), token)
		}
		mustWakeLost(t, c, token)
		mustRelease(t, l)
	})
}

// TestStoppedHolderBehindATableWorker (H4): no evidence is left to evict by; two looks 5 s apart tell.
func TestStoppedHolderBehindATableWorker(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		c, token := holder(t, e, k, e.dsn())
		c.signal(t, syscall.SIGSTOP)
		db := e.hybridPool(t, k, e.dsn())
		between := mustAcquire(t, client(t, db), e.schema) // by the row alone, once that has expired
		mustRelease(t, between)
		begun := time.Now()
		l := mustAcquire(t, hybridClient(t, db), e.schema)
		took := time.Since(begun)
		t.Logf("evicted after %v", took)
		if took < 5*time.Second || took > 12*time.Second {
			t.Errorf("evicted after %v, want two looks 5 s apart", took)
		}
		if l.Token() <= between.Token() || between.Token() <= token {
			t.Errorf("tokens %d, %d, %d", token, between.Token(), l.Token())
		}
		mustWakeLost(t, c, token)
		mustRelease(t, l)
	})
}

// TestSignalBackendIsEnoughToEvict: a role that may end a session need not be allowed to look at it.
func TestSignalBackendIsEnoughToEvict(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		held, asHolder := e.role()
		waits, asWaiter := e.role("IN ROLE pg_signal_backend")
		for _, role := range []string{held, waits} {
			e.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON pglease_leases TO " + role)
		}
		c, token := holder(t, e, k, e.dsn(asHolder))
		got := e.waits(t, hybridClient(t, e.hybridPool(t, k, e.dsn(asWaiter))))
		stopped := time.Now()
		c.signal(t, syscall.SIGSTOP)
		l := await(t, "the next holder", got)
		if took := time.Since(stopped); took > stoppedTTL+time.Second {
			t.Errorf("the next one holds after %v, want TTL %v and 1 s", took, stoppedTTL)
		}
		mustWakeLost(t, c, token)
		mustRelease(t, l)
	})
}

// TestNoRightToEvict: a waiter says in its error and its log why it waits, goes on, and has it when the holder is gone.
func TestNoRightToEvict(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		name, as := e.role()
		e.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON pglease_leases TO " + name)
		c, token := holder(t, e, k, e.dsn()) // a superuser's session
		core, logs := zapobserver.New(zapcore.WarnLevel)
		waiter := hybridClient(t, e.hybridPool(t, k, e.dsn(as)), pglease.WithLogger(zap.New(core)))
		c.signal(t, syscall.SIGSTOP)
		refused := func() int { return logs.FilterMessageSnippet("cannot end the session").Len() }

		ctx, cancel := context.WithCancel(testContext(t))
		defer cancel()
		failed := make(chan error, 1)
		go func() { failed <- second(waiter.Acquire(ctx, e.schema)) }()
		eventually(t, "two refusals in the log", func() bool { return refused() >= 2 })
		cancel()
		err := await(t, "the waiter that gives up", failed)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, pglease.ErrHeld) || !contains(err, "pg_signal_backend") || !contains(err, fmt.Sprint(e.holderPID())) {
			t.Errorf("the error does not say why it has waited: %v", err)
		}
		if _, err := waiter.TryAcquire(testContext(t), e.schema); !errors.Is(err, pglease.ErrHeld) || !contains(err, "pg_signal_backend") {
			t.Errorf("the error of a try: %v", err)
		}

		got := make(chan *pglease.Lease, 1)
		again := testContext(t)
		go func() {
			l, err := waiter.Acquire(again, e.schema)
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		eventually(t, "a waiter that goes on", func() bool { return e.waiting() > 0 })
		_ = c.cmd.Process.Kill()
		l := await(t, "the lease of a holder that is gone", got)
		if l.Token() <= token {
			t.Errorf("token %d after %d", l.Token(), token)
		}
		mustRelease(t, l)
	})
}

// TestSameNameInAnotherSchema: the advisory key is the name's alone, so a lease of the same name in another schema stands in the
// way. Its holder is alive, and nobody's to evict, although in this schema the row has expired, or is missing (H4, S7).
func TestSameNameInAnotherSchema(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		holder := mustTry(t, hybridClient(t, e.hybridPool(t, k, e.dsn())), e.schema)
		other := newEnv(t).table()
		waiter := hybridClient(t, other.hybridPool(t, k, other.dsn()))
		begun := time.Now()
		for _, row := range []string{"missing", "expired"} {
			ctx, cancel := context.WithTimeout(testContext(t), 7*time.Second) // longer than two looks are apart
			_, err := waiter.Acquire(ctx, e.schema)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || !contains(err, "another lease table, "+e.schema+".pglease_leases") {
				t.Errorf("row %s: after %v: %v", row, time.Since(begun), err)
			}
			if err := holder.Err(); err != nil {
				t.Fatalf("row %s: the holder in the other schema: %v", row, err)
			}
			between := mustTry(t, client(t, other.open(t, k, other.dsn())), e.schema) // a table-mode worker is not in its way
			mustRelease(t, between)
		}
		mustRelease(t, holder)
		mustRelease(t, mustAcquire(t, waiter, e.schema))
	})
}
