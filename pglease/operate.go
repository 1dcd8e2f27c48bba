package pglease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pglease/pglease-go/db"
	"github.com/pglease/pglease-go/pglease/internal/backoff"
)

// What an operator does with the table: reading, forcing, deleting.

// infoOf makes an Info of a row. Drivers return times in the zone of the session: they come out in UTC (C3).
func infoOf(row db.GetLeaseRow) Info {
	return infoOfSaid(row, said{decodeMetadata(row.Metadata), decodeEvidence(row.Session)})
}

func infoOfSaid(row db.GetLeaseRow, says said) Info {
	mode := ModeTable
	if says.evidence.counts(row) {
		mode = ModeHybrid
	}
	metadata := says.metadata
	if row.Token < row.AcquiredAt.UnixMicro() { // no Go client's term (section 4 of the design): a Python worker leaves what the last one wrote (H3)
		metadata = nil
	}
	var session *Session
	if mode == ModeHybrid && row.SessionPID != 0 {
		session = &Session{PID: int(row.SessionPID), ClientAddr: row.SessionClient, ApplicationName: row.SessionApplication}
	}
	return Info{
		Session:     session,
		Name:        row.TaskName,
		Owner:       row.OwnerID,
		Token:       row.Token,
		AcquiredAt:  row.AcquiredAt.UTC(),
		ExpiresAt:   row.ExpiresAt.UTC(),
		HeartbeatAt: row.HeartbeatAt.UTC(),
		ObservedAt:  row.ObservedAt.UTC(),
		Mode:        mode,
		Metadata:    metadata,
	}
}

func (t *tableBackend) Get(ctx context.Context, name string) (Info, error) {
	var row db.GetLeaseRow
	err := t.run(ctx, false, func(ctx context.Context, s statements) (err error) {
		row, err = queries.GetLease(ctx, s, name)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Info{}, fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	if err != nil {
		return Info{}, t.fault(ctx, "get", err)
	}
	return infoOf(row), nil
}

func (t *tableBackend) List(ctx context.Context, prefix string, limit int, withExpired bool) ([]Info, error) {
	var rows []db.ListLeasesRow
	err := t.run(ctx, false, func(ctx context.Context, s statements) (err error) {
		rows, err = queries.ListLeases(ctx, s, db.ListLeasesParams{
			WithExpired: withExpired, Prefix: prefix, MaxRows: sql.NullInt64{Int64: int64(limit), Valid: limit > 0},
		})
		return err
	})
	if err != nil {
		return nil, t.fault(ctx, "list", err)
	}
	infos := make([]Info, len(rows))
	for i, row := range rows {
		infos[i] = infoOf(db.GetLeaseRow(row))
	}
	return infos, nil
}

// ForceRelease asks again for as long as callTimeout while the row is locked: it does not queue for the lock, because a
// backend that waits for a row lock is not ended by a driver that ignores its context.
func (t *tableBackend) ForceRelease(ctx context.Context, name string, ifToken *int64) (Info, error) {
	whole, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// The last quarter of the time is for finding out who stands in the way. No statement is cut short for it: that would cost
	// the connection, and a new one takes time.
	end, _ := whole.Deadline()
	waiting, stop := context.WithTimeout(whole, time.Until(end)*3/4)
	defer stop()
	args := db.ForceReleaseLeaseParams{Name: name}
	if ifToken != nil {
		args.IfToken = sql.NullInt64{Int64: *ifToken, Valid: true}
	}
	locked := false // the row was found locked
	for n, try := 1, 1; ; n++ {
		var row db.ForceReleaseLeaseRow
		err := t.run(whole, false, func(ctx context.Context, s statements) (err error) {
			if row, err = queries.ForceReleaseLease(ctx, s, args); err != nil {
				return err
			}
			return t.committed(ctx, s, row.XID, Term{})
		})
		switch {
		case err == nil:
			return infoOf(db.GetLeaseRow{
				TaskName: row.TaskName, OwnerID: row.OwnerID, AcquiredAt: row.AcquiredAt, ExpiresAt: row.ExpiresAt, HeartbeatAt: row.HeartbeatAt,
				Token: row.Token, Session: row.Session, Metadata: row.Metadata, ObservedAt: row.ObservedAt,
			}), nil
		case !errors.Is(err, sql.ErrNoRows):
			if again(whole, try, err) {
				try++
				continue
			}
			if locked && endOf(whole) != nil {
				return Info{}, t.guarded(whole, name)
			}
			return Info{}, t.fault(whole, "force release", err)
		}
		info, err := t.Get(whole, name)
		if err != nil && locked && endOf(whole) != nil {
			return Info{}, t.guarded(whole, name)
		}
		if err != nil {
			return Info{}, err
		}
		if ifToken != nil && info.Token != *ifToken {
			return Info{}, &HeldError{Info: info}
		}
		locked = true
		if !pause(waiting, backoff.Exponential(n, 10*time.Millisecond, 200*time.Millisecond)) {
			return Info{}, t.guarded(whole, name)
		}
	}
}

// guarded is the error for a row that stays locked. It names the transaction that locks it, if that can be found out.
func (t *tableBackend) guarded(ctx context.Context, name string) error {
	who := "by an open transaction"
	lookCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	var lockers []db.RowLockersRow
	err := t.run(lookCtx, false, func(ctx context.Context, s statements) (err error) {
		lockers, err = queries.RowLockers(ctx, s)
		return err
	})
	if err == nil && len(lockers) > 0 {
		names := make([]string, len(lockers))
		for i, l := range lockers {
			names[i] = fmt.Sprintf("pid %d, application %q", l.PID, l.ApplicationName)
		}
		who += ", one of these: " + strings.Join(names, "; ")
	}
	return &BackendError{
		Op: "force release", text: fmt.Sprintf("%q is guarded %s: nothing was changed", name, who),
		cause: func() error { // the caller's context, or the time that was left of it for waiting
			if err := context.Cause(ctx); err != nil {
				return err
			}
			return context.DeadlineExceeded
		},
	}
}

// pause waits for d, and reports false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *tableBackend) DeleteExpired(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
	var deleted int64
	for n := 1; ; n++ {
		err := t.runFor(ctx, time.Minute, false, func(ctx context.Context, s statements) (err error) {
			deleted, err = queries.DeleteExpiredLeases(ctx, s, db.DeleteExpiredLeasesParams{OlderThanSeconds: olderThan.Seconds(), Batch: int64(limit)})
			return err
		})
		if err == nil {
			return deleted, nil
		}
		if !again(ctx, n, err) {
			return 0, t.fault(ctx, "delete expired", err)
		}
	}
}
