package driver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// A shutdown is a client with tasks in every state, and what is to become of them.
type shutdown struct {
	t       *testing.T
	e       *env
	client  *pglease.Client
	names   []string
	outcome map[string]<-chan error // of each task
	want    map[string]func(error) bool
	release chan struct{} // has the stubborn ones return
}

// background runs a task in a goroutine of the test, because Client.Go lets a panic end the program.
func (s *shutdown) background(name string, want func(error) bool, f func() error) {
	result := make(chan error, 1)
	s.names = append(s.names, name)
	s.outcome[name], s.want[name] = result, want
	go func() {
		err := errors.New("runtime.Goexit")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
			result <- err
		}()
		err = f()
	}()
}

// run has fn run under the lease of its own name, and waits until it does.
func (s *shutdown) run(name string, want func(error) bool, fn func(ctx context.Context, l *pglease.Lease) error, opts ...pglease.GoOption) *pglease.Task {
	s.t.Helper()
	running := make(chan struct{}, 10)
	task := s.client.Go(context.Background(), s.e.schema+name, func(ctx context.Context, l *pglease.Lease) error {
		running <- struct{}{}
		return fn(ctx, l)
	}, opts...)
	s.background(name, want, task.Wait)
	await(s.t, name+" to run", running)
	return task
}

func nothing(err error) bool { return err == nil }

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func says(text string) func(error) bool {
	return func(err error) bool { return err != nil && strings.Contains(err.Error(), text) }
}

// obey returns when it is told to, with the reason.
func obey(ctx context.Context, _ *pglease.Lease) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// newShutdown starts tasks in every state. The leases of the waiting ones are held by another client.
func newShutdown(t *testing.T, e *env, db *sql.DB, other *pglease.Client, opts []pglease.Option) *shutdown {
	t.Helper()
	c, err := pglease.New(db, append([]pglease.Option{pglease.WithTTL(longTTL), pglease.WithPollInterval(50 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	s := &shutdown{t: t, e: e, client: c, outcome: map[string]<-chan error{}, want: map[string]func(error) bool{}, release: make(chan struct{})}
	ctx := context.Background()
	closed := is(pglease.ErrClosed)

	for name, wait := range map[string]pglease.GoOption{"waits": pglease.Wait(), "waits for a while": pglease.WaitFor(time.Hour), "campaigns": pglease.Campaign()} {
		if _, err := other.TryAcquire(testContext(t), e.schema+name); err != nil {
			t.Fatal(err)
		}
		task := c.Go(ctx, e.schema+name, obey, wait)
		s.background(name, closed, task.Wait)
	}
	s.run("runs", closed, obey)
	s.run("leads", closed, obey, pglease.Campaign())
	s.run("cleans up", closed, func(ctx context.Context, _ *pglease.Lease) error {
		<-ctx.Done()
		time.Sleep(300 * time.Millisecond)
		return context.Cause(ctx)
	})
	s.run("has finished", nothing, func(context.Context, *pglease.Lease) error { return nil })
	s.run("is stopped", nothing, obey).Stop()
	s.run("has failed", says("broken"), func(context.Context, *pglease.Lease) error { return errors.New("broken") })
	s.run("has released its lease", is(pglease.ErrReleased), func(ctx context.Context, l *pglease.Lease) error {
		return errors.Join(l.Release(ctx), obey(ctx, l))
	})
	losing := s.run("has lost its lease", is(pglease.ErrLost), s.lose)
	eventually(t, "the loss", func() bool { return losing.Lease() == nil })
	s.do("panics", says("panic: broken"), func() { panic("broken") })
	s.do("exits", says("runtime.Goexit"), runtime.Goexit)
	if _, err := c.TryAcquire(testContext(t), e.schema+"is forgotten"); err != nil {
		t.Fatal(err)
	}
	return s
}

// lose has the server end the term of l.
func (s *shutdown) lose(ctx context.Context, l *pglease.Lease) error {
	s.e.exec("UPDATE pglease_leases SET expires_at = clock_timestamp() WHERE task_name = $1", l.Name())
	_ = l.Renew(ctx)
	return obey(ctx, l)
}

// do runs a function that ends in a way of its own when it is told to.
func (s *shutdown) do(name string, want func(error) bool, end func()) {
	s.t.Helper()
	running := make(chan struct{})
	s.background(name, want, func() error {
		return s.client.Do(context.Background(), s.e.schema+name, func(ctx context.Context, _ *pglease.Lease) error {
			close(running)
			<-ctx.Done()
			end()
			return nil
		})
	})
	await(s.t, name+" to run", running)
}

// stubborn adds functions that do not listen.
func (s *shutdown) stubborn() {
	s.t.Helper()
	ignore := func(context.Context, *pglease.Lease) error { <-s.release; return nil }
	s.run("is stubborn", nothing, ignore)
	s.run("leads stubbornly", is(pglease.ErrClosed), ignore, pglease.Campaign())
	losing := s.run("has lost its lease and is stubborn", is(pglease.ErrLost), func(ctx context.Context, l *pglease.Lease) error {
		_ = s.lose(ctx, l)
		return ignore(ctx, l)
	})
	eventually(s.t, "the loss", func() bool { return losing.Lease() == nil })
}

// ended checks what became of the tasks.
func (s *shutdown) ended(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if err := await(s.t, "the end of the one that "+name, s.outcome[name]); !s.want[name](err) {
			s.t.Errorf("the one that %s: %v", name, err)
		}
	}
}

// nothingHeld checks that all leases of the client are free, for whoever comes next.
func (s *shutdown) nothingHeld(by *pglease.Client) {
	s.t.Helper()
	infos, err := by.List(testContext(s.t), pglease.WithPrefix(s.e.schema))
	if err != nil {
		s.t.Fatal(err)
	}
	var left []string
	for _, info := range infos {
		if name := strings.TrimPrefix(info.Name, s.e.schema); name != "waits" && name != "waits for a while" && name != "campaigns" {
			left = append(left, name)
		}
	}
	if len(left) > 0 {
		s.t.Errorf("still held after Close: %q", left)
	}
}

func shutdowns(t *testing.T, f func(t *testing.T, s *shutdown, db *sql.DB, other *pglease.Client)) {
	t.Helper()
	noGoroutineLeft(t)
	for _, k := range two {
		for _, mode := range modes {
			t.Run(k.name+"/"+mode.name, func(t *testing.T) {
				e := newEnv(t).table()
				db := e.open(t, k, e.dsn())
				other := client(t, e.open(t, k, e.dsn()), mode.opts...)
				f(t, newShutdown(t, e, db, other, mode.opts), db, other)
			})
		}
	}
}

// Close with a dozen tasks in every state: those that wait stop waiting, those that run are told and waited for, and all leases are
// free at once, whatever their functions did (O6, O8).
func TestCloseEndsTasksInEveryState(t *testing.T) {
	shutdowns(t, func(t *testing.T, s *shutdown, _ *sql.DB, other *pglease.Client) {
		begun := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.client.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(begun); took < 300*time.Millisecond {
			t.Errorf("Close took %v: it has not waited for the one that cleans up", took)
		}
		s.nothingHeld(other)
		s.ended(s.names...)
		if _, err := s.client.TryAcquire(testContext(t), "late"); !errors.Is(err, pglease.ErrClosed) {
			t.Errorf("TryAcquire after Close: %v", err)
		}
		if err := s.client.Go(ctx, "late", obey).Wait(); !errors.Is(err, pglease.ErrClosed) {
			t.Errorf("Go after Close: %v", err)
		}
		if err := s.client.Close(ctx); err != nil {
			t.Errorf("Close again: %v", err)
		}
	})
}

// Functions that do not listen are left behind when the context of Close ends, and named, and nothing else is. Their leases are
// released all the same.
func TestCloseNamesWhatItLeaves(t *testing.T) {
	shutdowns(t, func(t *testing.T, s *shutdown, db *sql.DB, other *pglease.Client) {
		obedient := slices.Clone(s.names)
		s.stubborn()
		stubborn := s.names[len(obedient):]
		const limit = 1500 * time.Millisecond
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		begun := time.Now()
		err := s.client.Close(ctx)
		if took := time.Since(begun); took < limit-100*time.Millisecond || took > limit+5*time.Second {
			t.Errorf("Close took %v; want its context's %v, and the time to release", took, limit)
		}
		if err == nil {
			t.Fatal("Close names nothing")
		}
		for _, name := range stubborn {
			if !strings.Contains(err.Error(), s.e.schema+name) {
				t.Errorf("%q is not named: %v", name, err)
			}
		}
		for _, name := range obedient {
			if strings.Contains(err.Error(), fmt.Sprintf("%q", s.e.schema+name)) {
				t.Errorf("%q is named: %v", name, err)
			}
		}
		s.nothingHeld(other)
		s.ended(obedient...)
		close(s.release)
		s.ended(stubborn...)
		if !poll(func() bool { return db.Stats().InUse == 0 }) {
			t.Errorf("%d connections in use at the end", db.Stats().InUse)
		}
	})
}
