//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/history"
	"github.com/pglease/pglease-go/pglease"
)

// leaveLimit is how long what clients leave may take to go: a lease its TTL, longer if the server's clock was set back.
const leaveLimit = 15 * time.Second

// ended waits until a process that was told to end has, and notes if it has not, or not well.
func (d *director) ended(p *process) {
	if err := p.await(2 * endLimit); err != nil {
		d.mu.Lock()
		d.left.Processes = append(d.left.Processes, fmt.Sprintf("client %d (%s %s %s): %v", p.ID, p.Who.Driver, p.Who.Backend, p.Who.Route, err))
		d.mu.Unlock()
	}
}

// wind ends the workers, and writes down what they leave on the server, and what they wrote there.
func (d *director) wind(ctx context.Context) error {
	for _, s := range d.slots {
		s.process().tell()
	}
	for _, s := range d.slots {
		d.ended(s.process())
	}
	left := &d.left
	left.Names = len(names)
	var errs []error
	for _, look := range []struct {
		into  *[]string
		query string
	}{
		{&left.Sessions, "SELECT application_name || ': ' || coalesce(query, '') FROM pg_stat_activity WHERE application_name LIKE 'torture-%' AND pid <> pg_backend_pid()"},
		{&left.Locks, "SELECT pid || ': ' || mode FROM pg_locks WHERE locktype = 'advisory'"},
		{&left.Held, "SELECT task_name FROM pglease_leases WHERE expires_at > clock_timestamp()"},
	} {
		all, err := d.none(ctx, look.query)
		*look.into = append(*look.into, all...)
		errs = append(errs, err)
	}
	for _, opt := range []pglease.Option{pglease.WithHybrid(), pglease.WithPollInterval(time.Second)} {
		errs = append(errs, d.acquireAll(ctx, opt))
	}
	errs = append(errs, d.client.Close(ctx), d.save("left.json", left))
	writes, err := d.writes(ctx)
	return errors.Join(append(errs, err, d.save("writes.json", writes))...)
}

// none asks until there is no row, and returns those that stay.
func (d *director) none(ctx context.Context, query string) (all []string, err error) {
	for end := time.Now().Add(leaveLimit); ; sleep(ctx, 50*time.Millisecond) {
		rows, err := d.admin.QueryContext(ctx, query)
		if err != nil {
			return nil, err
		}
		all = nil
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				return nil, errors.Join(err, rows.Close())
			}
			all = append(all, text)
		}
		if err := rows.Err(); err != nil || len(all) == 0 || time.Now().After(end) {
			return all, err
		}
	}
}

// acquireAll notes the names that a client cannot acquire.
func (d *director) acquireAll(ctx context.Context, opt pglease.Option) error {
	c, err := pglease.New(d.admin, opt)
	if err != nil {
		return err
	}
	for _, name := range names {
		l, err := c.TryAcquire(ctx, name)
		if err == nil {
			err = l.Release(ctx)
		}
		if err != nil {
			d.left.Held = append(d.left.Held, fmt.Sprintf("%s: %v", name, err))
		}
	}
	return c.Close(ctx)
}

func (d *director) writes(ctx context.Context) (all []history.Write, err error) {
	rows, err := d.admin.QueryContext(ctx, "SELECT name, seq, token, read_token, client, op FROM writes ORDER BY name, seq, id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var w history.Write
		if err := rows.Scan(&w.Name, &w.Seq, &w.Token, &w.ReadToken, &w.Client, &w.ID); err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, rows.Err()
}

func (d *director) save(file string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.dir, file), text, 0o644)
}
