package pglease_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/internal/fakedb"
)

func TestAHungHeartbeatIsAZombieUntilItEnds_T3(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		core, logs := observer.New(zapcore.WarnLevel)
		seen := new(events)
		c := open(t, db, pglease.WithLogger(zap.New(core)), pglease.WithObserver(seen))
		end := make(chan struct{})
		l := acquire(t, c, t.Name())
		server.Before(only("RenewLeases", func(_ context.Context, st fakedb.Statement) error {
			if st.N > 1 {
				return nil
			}
			return fakedb.Ignore(end)
		}))
		time.Sleep(40*time.Second - time.Millisecond) // sent after 10 s, and 30 s later
		if zombies := c.Zombies(); len(zombies) != 0 || l.Err() != nil {
			t.Fatalf("before its time: %v, %v", zombies, l.Err())
		}
		time.Sleep(2 * time.Millisecond)
		zombies := c.Zombies()
		if len(zombies) != 1 {
			t.Fatalf("%d zombies, want 1", len(zombies))
		}
		want := pglease.Zombie{Name: t.Name(), Token: l.Token(), Kind: pglease.ZombieHeartbeat, Since: zombies[0].Since}
		if zombies[0] != want || time.Since(want.Since) != 30*time.Second+time.Millisecond {
			t.Errorf("zombie %+v", zombies[0])
		}
		time.Sleep(10 * time.Minute)
		if entries := logs.FilterMessageSnippet("zombie").All(); len(entries) != 1 || entries[0].Level != zapcore.WarnLevel ||
			entries[0].ContextMap()["kind"] != "heartbeat" || entries[0].ContextMap()["name"] != t.Name() {
			t.Errorf("log entries: %v", entries)
		}
		if told := seen.of(pglease.EventZombie); len(told) != 1 || told[0].Zombie != pglease.ZombieHeartbeat || told[0].Name != t.Name() {
			t.Errorf("events: %+v", told)
		}
		close(end)
		synctest.Wait()
		if zombies := c.Zombies(); len(zombies) != 0 {
			t.Errorf("after it has ended: %v", zombies)
		}
		if l.Err() != nil {
			t.Errorf("the lease, which was renewed over another connection: %v", l.Err())
		}
	})
}

func TestACallThatEndsInTimeIsNoZombie(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		seen := new(events)
		c := open(t, db, pglease.WithObserver(seen))
		end := make(chan struct{})
		server.Before(only("GetLease", deaf(end)))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := c.Get(ctx, t.Name())
		mustBe(t, "Get", err, context.DeadlineExceeded)
		time.Sleep(28 * time.Second)
		close(end)
		time.Sleep(time.Minute)
		if zombies := seen.of(pglease.EventZombie); len(zombies) != 0 || len(c.Zombies()) != 0 {
			t.Errorf("zombies: %+v, %v", zombies, c.Zombies())
		}
	})
}

func TestATaskThatIgnoresItsLossIsAZombie(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		core, logs := observer.New(zapcore.WarnLevel)
		seen := new(events)
		c := open(t, db, pglease.WithLogger(zap.New(core)), pglease.WithObserver(seen))
		end := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- c.Do(context.Background(), t.Name(), func(ctx context.Context, l *pglease.Lease) error {
				server.Edit(t.Name(), func(*fakedb.Row) *fakedb.Row { return nil })
				<-ctx.Done()
				<-end
				return nil
			})
		}()
		time.Sleep(40*time.Second - time.Millisecond) // lost after 10 s
		if zombies := c.Zombies(); len(zombies) != 0 {
			t.Errorf("before its time: %v", zombies)
		}
		time.Sleep(2 * time.Millisecond)
		if zombies := c.Zombies(); len(zombies) != 1 || zombies[0].Kind != pglease.ZombieTask || zombies[0].Name != t.Name() || zombies[0].Token == 0 {
			t.Errorf("zombies: %+v", zombies)
		}
		if entries := logs.FilterMessageSnippet("zombie").All(); len(entries) != 1 || len(seen.of(pglease.EventZombie)) != 1 {
			t.Errorf("log entries: %v, events %v", entries, seen.of(pglease.EventZombie))
		}
		close(end)
		mustBe(t, "Do", <-done, pglease.ErrLost)
		if zombies := c.Zombies(); len(zombies) != 0 {
			t.Errorf("after it has ended: %v", zombies)
		}
	})
}

func TestATaskThatDrainsAfterCloseIsNoZombie(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		seen := new(events)
		c := open(t, db, pglease.WithObserver(seen))
		go func() {
			_ = c.Do(context.Background(), t.Name(), func(ctx context.Context, _ *pglease.Lease) error {
				<-ctx.Done()
				time.Sleep(10 * time.Minute)
				return nil
			})
		}()
		synctest.Wait()
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if zombies := seen.of(pglease.EventZombie); len(zombies) > 0 {
			t.Errorf("zombies: %+v", zombies)
		}
	})
}

func TestAZombieRow(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		acquire(t, c, t.Name(), pglease.WithTTL(time.Hour), pglease.WithHeartbeatInterval(time.Minute))
		server.Before(only("RenewLeases", fail(errors.New("connection reset by peer"))))
		time.Sleep(5 * time.Minute)
		info, err := c.Get(t.Context(), t.Name())
		if err != nil {
			t.Fatal(err)
		}
		if !info.Zombie(4*time.Minute) || info.Zombie(5*time.Minute) || info.Zombie(6*time.Minute) {
			t.Errorf("Zombie of a holder that has been silent for 5 minutes: %+v", info)
		}
	})
}
