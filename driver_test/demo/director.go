package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

// The director starts, kills and stops the workers, and looks at the rows.
type director struct {
	start   time.Time
	server  *pgserver.Server
	dsn     string
	db      *sql.DB
	client  *pglease.Client // never holds a lease
	workers map[string]*worker
	events  chan event

	runs, skips map[string]int
}

func (d *director) heading(text string) {
	fmt.Printf("\n%s\n%s\n", text, strings.Repeat("-", len(text)))
}

func (d *director) say(who, format string, args ...any) {
	fmt.Printf("%5.1f s  %-8s  %s\n", time.Since(d.start).Seconds(), who, fmt.Sprintf(format, args...))
}

// Write makes the server package's lines ours.
func (d *director) Write(line []byte) (int, error) {
	d.say("demo", "%s", strings.TrimRight(string(line), "\n"))
	return len(line), nil
}

func newDirector(ctx context.Context) (_ *director, err error) {
	d := &director{
		start: time.Now(), workers: map[string]*worker{}, events: make(chan event, 100),
		runs: map[string]int{}, skips: map[string]int{},
	}
	d.heading("A server")
	if d.server, err = pgserver.Start(ctx, pgserver.WithLog(d)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	name, err := d.server.CreateDatabase(ctx)
	if err != nil {
		return nil, err
	}
	d.dsn = d.server.DSN(pgserver.Database(name))
	if d.db, err = sql.Open("pgx", d.dsn); err != nil {
		return nil, err
	}
	if d.client, err = pglease.New(d.db); err != nil {
		return nil, err
	}
	if err := d.client.EnsureSchema(ctx); err != nil {
		return nil, err
	}
	if _, err := d.db.ExecContext(ctx, tables); err != nil {
		return nil, err
	}
	d.say("demo", "made the database %s, with the table pglease_leases and three accounts", name)
	return d, nil
}

// close ends everything that the demo has started.
func (d *director) close() error {
	var errs []error
	for _, w := range d.workers {
		if err := w.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, d.endWorkers())
	if d.client != nil {
		errs = append(errs, d.client.Close(context.Background()))
	}
	if d.db != nil {
		errs = append(errs, d.db.Close())
	}
	return errors.Join(append(errs, d.server.Stop())...)
}

// without shows that the job really can be ruined.
func (d *director) without(ctx context.Context) error {
	d.heading("1. Without a lease: three processes do the job at once")
	for n := 1; n <= 3; n++ {
		if _, err := d.launch(fmt.Sprintf("worker-%d", n), bareVariable+"=1"); err != nil {
			return err
		}
	}
	for range 3 {
		e, err := d.await(ctx, "a job done", of("done"))
		if err != nil {
			return err
		}
		e.worker.ends = true
	}
	if err := d.endWorkers(); err != nil {
		return err
	}
	sum, err := total(ctx, d.db)
	if err != nil {
		return err
	}
	verdict := "wrong"
	if sum == coins {
		verdict = "right, by luck"
	}
	d.say("demo", "the accounts hold %d coins together, of %d: %s", sum, coins, verdict)
	_, err = d.db.ExecContext(ctx, tables)
	return err
}

// with shows who runs and who skips.
func (d *director) with(ctx context.Context) error {
	d.heading("2. With a lease: Client.Do(ctx, name, job, SkipIfHeld()), every second, in three processes")
	for n := 1; n <= 3; n++ {
		if err := d.ready(ctx, fmt.Sprintf("worker-%d", n)); err != nil {
			return err
		}
	}
	for range 3 {
		if _, err := d.await(ctx, "a job done", of("done")); err != nil {
			return err
		}
	}
	return d.sum(ctx, coins)
}

func (d *director) ready(ctx context.Context, name string) error {
	if _, err := d.launch(name); err != nil {
		return err
	}
	_, err := d.await(ctx, name+" started", of("ready"))
	return err
}

// sum says what the accounts hold, and fails if that is not what it should be.
func (d *director) sum(ctx context.Context, want int) error {
	sum, err := total(ctx, d.db)
	if err != nil {
		return err
	}
	d.say("demo", "the accounts hold %d coins together", sum)
	if sum != want {
		return fmt.Errorf("the accounts hold %d coins, not %d", sum, want)
	}
	return nil
}

// kill shows the takeover after a crash.
func (d *director) kill(ctx context.Context) error {
	d.heading("3. The holder is killed (SIGKILL) between its two writes")
	e, err := d.await(ctx, "a job half done", of("half"))
	if err != nil {
		return err
	}
	victim := e.worker
	victim.ends = true
	if err := victim.cmd.Process.Kill(); err != nil {
		return err
	}
	killed := time.Now()
	<-victim.gone
	delete(d.workers, victim.name)
	d.say("demo", "killed %s. 10 coins are nowhere now:", victim.name)
	if err := d.sum(ctx, coins-amount); err != nil {
		return err
	}
	if os.Getenv(hybridVariable) == "" {
		d.say("demo", "nobody can see that it is dead: its lease stays until its TTL of %v ends", ttl)
	} else {
		d.say("demo", "its session on the server has ended with it: the next worker that looks can take over")
	}
	if err := d.leases(ctx); err != nil {
		return err
	}
	if err := d.takeover(ctx, victim, killed, "the kill"); err != nil {
		return err
	}
	d.say("demo", "%s is started again", victim.name)
	return d.ready(ctx, victim.name)
}

// takeover waits for another worker to have the lease and to put things right.
func (d *director) takeover(ctx context.Context, victim *worker, since time.Time, what string) error {
	e, err := d.await(ctx, "a takeover", of("run", victim))
	if err != nil {
		return err
	}
	d.say("demo", "%s took over %.1f s after %s", e.worker.name, time.Since(since).Seconds(), what)
	if _, err := d.await(ctx, "the half-done move finished", of("finish", victim)); err != nil {
		return err
	}
	if _, err := d.await(ctx, "a job done", of("done", victim)); err != nil {
		return err
	}
	return d.sum(ctx, coins)
}

// stop shows that a stale holder's write is refused.
func (d *director) stop(ctx context.Context) error {
	d.heading("4. The holder is stopped (SIGSTOP) between its two writes, and wakes up too late")
	if !canStop {
		d.say("demo", "not run: this system has no SIGSTOP")
		return nil
	}
	e, err := d.await(ctx, "a job half done", of("half"))
	if err != nil {
		return err
	}
	sleeper := e.worker
	if err := stopProcess(sleeper.cmd.Process); err != nil {
		return err
	}
	stopped := time.Now()
	d.say("demo", "stopped %s. It knows nothing of that, and of the time that passes", sleeper.name)
	if err := d.takeover(ctx, sleeper, stopped, "the stop"); err != nil {
		return err
	}
	d.say("demo", "%s goes on, %.1f s later, in the middle of its job. It looks neither at its lease nor at the clock", sleeper.name,
		time.Since(stopped).Seconds())
	if err := continueProcess(sleeper.cmd.Process); err != nil {
		return err
	}
	e, err = d.await(ctx, "the stale write refused or done", func(e event) bool {
		return e.worker == sleeper && (e.kind == "refused" || e.kind == "done")
	})
	if err != nil {
		return err
	}
	if e.kind == "done" {
		return errors.New("the stale write was not refused")
	}
	e, err = d.await(ctx, "the server asked", of("server"))
	if err != nil {
		return err
	}
	if !strings.HasSuffix(e.text, "false") {
		return errors.New("to the server the old term is still current")
	}
	d.say("demo", "the write of the new holder stands, the late one came to nothing: Lease.CheckTx guards the transaction")
	return nil
}

// leases prints the lease table.
func (d *director) leases(ctx context.Context) error {
	infos, err := d.client.List(ctx, pglease.WithExpired())
	if err != nil {
		return err
	}
	fmt.Printf("\n         %-16s %-18s %-17s %-8s %-7s %s\n", "name", "owner", "token", "process", "mode", "state")
	for _, i := range infos {
		state := "released"
		switch {
		case !i.Expired():
			state = fmt.Sprintf("held for another %.1f s", i.Remaining().Seconds())
		case i.HeartbeatAt.Before(i.ExpiresAt):
			state = "expired"
		}
		fmt.Printf("         %-16s %-18s %-17d %-8s %-7s %s\n", i.Name, i.Owner, i.Token, i.Metadata["pid"], i.Mode, state)
	}
	fmt.Println()
	return nil
}

// end stops the workers and adds everything up.
func (d *director) end(ctx context.Context) error {
	d.heading("5. The end")
	d.say("demo", "the workers are told to end; each finishes its job and closes its client")
	if err := d.endWorkers(); err != nil {
		return err
	}
	d.say("demo", "the lease table:")
	if err := d.leases(ctx); err != nil {
		return err
	}
	for n := 1; n <= 3; n++ {
		name := fmt.Sprintf("worker-%d", n)
		d.say("demo", "%s ran %d times and skipped %d times", name, d.runs[name], d.skips[name])
	}
	writes, terms, workers, err := audit(ctx, d.db)
	if err != nil {
		return err
	}
	d.say("demo", "%d writes of %d workers in %d terms: no two terms mixed, no move lost or made twice", writes, workers, terms)
	return d.sum(ctx, coins)
}
