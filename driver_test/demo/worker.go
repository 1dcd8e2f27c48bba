package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/pglease/pglease-go/pglease"
)

// What a worker process is told through its environment. Its standard input stays open as long as it is to run.
const (
	workerVariable = "PGLEASE_DEMO_WORKER" // its name, such as worker-1
	dsnVariable    = "PGLEASE_DEMO_DSN"
	bareVariable   = "PGLEASE_DEMO_WITHOUT_LEASE"
	hybridVariable = "PGLEASE_DEMO_HYBRID" // set it for the demo, and the workers use the hybrid backend
)

// workerMain is the main function of a worker process. Every line that it prints is a word for the demo and a text for you.
func workerMain(name string) (code int) {
	signal.Ignore(os.Interrupt) // the demo says when it is over
	say := func(kind, format string, args ...any) {
		fmt.Println(kind, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; "))
	}
	number, err := strconv.Atoi(strings.TrimPrefix(name, "worker-"))
	if err != nil {
		say("error", "%v", err)
		return 1
	}
	db, err := sql.Open("pgx", os.Getenv(dsnVariable))
	if err != nil {
		say("error", "%v", err)
		return 1
	}
	defer db.Close()
	j := &job{db: db, worker: name, number: number, say: say}
	if os.Getenv(bareVariable) != "" {
		err = once(j)
	} else {
		err = everySecond(j)
	}
	if err != nil {
		say("error", "%v", err)
		return 1
	}
	return 0
}

// once does the job without a lease.
func once(j *job) error {
	if err := j.db.Ping(); err != nil {
		return err
	}
	nextSecond(nil)
	return j.run(context.Background(), nil)
}

// everySecond is a worker as it should be, until standard input ends.
func everySecond(j *job) error {
	options := []pglease.Option{pglease.WithOwner(j.worker), pglease.WithTTL(ttl), pglease.WithSlog(logger(j.say))}
	if os.Getenv(hybridVariable) != "" {
		options = append(options, pglease.WithHybrid())
	}
	client, err := pglease.New(j.db, options...)
	if err != nil {
		return err
	}
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	if err := j.db.Ping(); err != nil {
		return err
	}
	j.say("ready", "is process %d", os.Getpid())
	for nextSecond(over) {
		if err := attempt(j, client); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), ttl)
	defer cancel()
	return client.Close(ctx)
}

// nextSecond waits for the clock to strike, as cron does, and reports false if it is over before.
func nextSecond(over <-chan struct{}) bool {
	select {
	case <-time.After(time.Until(time.Now().Truncate(time.Second).Add(time.Second))):
		return true
	case <-over:
		return false
	}
}

// attempt does the job, or skips it if another worker is at it.
func attempt(j *job, client *pglease.Client) error {
	ctx := context.Background()
	ran := false
	err := client.Do(ctx, lease, func(ctx context.Context, l *pglease.Lease) error {
		ran = true
		j.say("run", "has the lease, token %d", l.Token())
		ctx = context.WithoutCancel(ctx)
		err := j.run(ctx, l)
		if errors.Is(err, pglease.ErrLost) {
			j.say("refused", "its write was refused: %v", err)
			return j.askServer(ctx, l)
		}
		return err
	}, pglease.SkipIfHeld())
	if ran || err != nil {
		if errors.Is(err, pglease.ErrLost) {
			err = nil // said already
		}
		return err
	}
	info, err := client.Get(ctx, lease)
	if err != nil && !errors.Is(err, pglease.ErrNotFound) {
		return err
	}
	switch {
	case err != nil:
		j.say("skip", "skips: somebody is just taking the lease")
		return nil
	case info.Expired():
		j.say("skip", "skips: the lease was held, and is free by now")
		return nil
	}
	holder := info.Owner[:strings.LastIndexByte(info.Owner, '-')]
	if silence := info.ObservedAt.Sub(info.HeartbeatAt); silence > ttl/2 {
		j.say("skip", "skips: %s has the lease, silent for %.1f s, for another %.1f s", holder, silence.Seconds(), info.Remaining().Seconds())
	} else {
		j.say("skip", "skips: %s has the lease", holder)
	}
	return nil
}

// askServer shows that it is not only this process that knows of the loss.
func (j *job) askServer(ctx context.Context, l *pglease.Lease) error {
	query, args := l.CheckQuery()
	tx, err := j.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	var current bool
	if err := tx.QueryRowContext(ctx, query, args...).Scan(&current); err != nil {
		return err
	}
	j.say("server", "asks the server too: is token %d still current? %v", l.Token(), current)
	return nil
}

// logger turns the library's log entries into lines of the worker.
func logger(say func(kind, format string, args ...any)) *slog.Logger {
	r, w := io.Pipe()
	go func() {
		for lines := bufio.NewScanner(r); lines.Scan(); {
			say("log", "logs: %s", lines.Text())
		}
	}()
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}
