package fakedb

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pglease/pglease-go/db"
)

// An answer is what a statement returns: rows are of the types of package db.
type answer struct {
	rows     []any
	affected int64
}

// values turns a row into what a driver hands out: a column for each field.
func values(row any) []driver.Value {
	v := reflect.ValueOf(row)
	if v.Kind() != reflect.Struct {
		return []driver.Value{row}
	}
	columns := make([]driver.Value, v.NumField())
	for i := range columns {
		switch f := v.Field(i); f.Kind() {
		case reflect.Int32:
			columns[i] = f.Int()
		default:
			columns[i] = f.Interface()
		}
	}
	return columns
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func seconds(v driver.NamedValue) time.Duration {
	return time.Duration(v.Value.(float64) * float64(time.Second))
}

// execute does to the table in memory what the statement does to the real one.
func (s *Server) execute(ctx context.Context, st Statement) (answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch st.Name {
	case "AcquireLease":
		return s.acquire(st.Args), nil
	case "TakeLease":
		return s.take(st.Args), nil
	case "ReadLease":
		a := answer{}
		if r := s.rows[st.Args[0].Value.(string)]; r != nil {
			a.rows = append(a.rows, db.ReadLeaseRow{
				OwnerID: r.Owner, AcquiredAt: r.AcquiredAt, ExpiresAt: r.ExpiresAt, HeartbeatAt: r.HeartbeatAt, Token: r.Token,
				Metadata: r.Metadata, ObservedAt: now(),
			})
		}
		return a, nil
	case "RenewLeases":
		return s.renew(st.Args)
	case "ReleaseLease":
		return s.release(ctx, st.Args)
	case "WithdrawLease":
		return s.withdraw(st.Args)
	case "CheckTerm":
		r := s.current(st.Args[2].Value.(string), st.Args[0].Value.(string), st.Args[1].Value.(int64))
		return answer{rows: []any{r != nil}}, nil
	case "GetLease":
		a := answer{}
		if r := s.rows[st.Args[0].Value.(string)]; r != nil {
			a.rows = append(a.rows, r.info())
		}
		return a, nil
	case "ListLeases":
		a := answer{}
		for _, name := range slices.Sorted(maps.Keys(s.rows)) {
			if r := s.rows[name]; strings.HasPrefix(name, st.Args[1].Value.(string)) && (st.Args[0].Value.(bool) || r.ExpiresAt.After(now())) {
				a.rows = append(a.rows, db.ListLeasesRow(r.info()))
			}
		}
		return a, nil
	case "ForceReleaseLease":
		return s.force(st.Args), nil
	case "DeleteExpiredLeases":
		return s.purge(st.Args), nil
	case "RowLockers":
		return answer{rows: []any{db.RowLockersRow{PID: 4711, ApplicationName: "fakedb's guard"}}}, nil
	case "SearchPath":
		return answer{rows: []any{`"$user", public`}}, nil
	case "TransactionStatus":
		if s.transaction {
			return answer{rows: []any{"in progress"}}, nil
		}
		return answer{rows: []any{"committed"}}, nil
	case "TransactionOpen":
		return answer{rows: []any{s.transaction}}, nil
	case "ping", "begin", "commit", "rollback", "work": // of an application
		return answer{}, nil
	}
	return answer{}, fmt.Errorf("fakedb: unknown statement %q: %w", st.Name, Error("42601"))
}

// current returns the row of a term that is neither over nor released.
func (s *Server) current(name, owner string, token int64) *Row {
	r := s.rows[name]
	if r == nil || r.Owner != owner || r.Token != token || !r.ExpiresAt.After(now()) || !r.HeartbeatAt.Before(r.ExpiresAt) {
		return nil
	}
	return r
}

func (r *Row) info() db.GetLeaseRow {
	return db.GetLeaseRow{
		TaskName: r.Name, OwnerID: r.Owner, AcquiredAt: r.AcquiredAt, ExpiresAt: r.ExpiresAt, HeartbeatAt: r.HeartbeatAt,
		Token: r.Token, Metadata: r.Metadata, ObservedAt: now(),
	}
}

// end marks the row as released.
func (r *Row) end(minHold time.Duration) {
	r.ExpiresAt = now()
	if until := r.AcquiredAt.Add(minHold); until.After(r.ExpiresAt) {
		r.ExpiresAt = until
	}
	r.HeartbeatAt = r.ExpiresAt
}

func (s *Server) acquire(args []driver.NamedValue) answer {
	at := now()
	ttl, name, owner, metadata := seconds(args[0]), args[1].Value.(string), args[2].Value.(string), args[3].Value.(string)
	r := s.rows[name]
	if r != nil && (r.ExpiresAt.After(at) || r.Locked) {
		return answer{rows: []any{db.AcquireLeaseRow{
			OwnerID: r.Owner, AcquiredAt: r.AcquiredAt, ExpiresAt: r.ExpiresAt, HeartbeatAt: r.HeartbeatAt, Token: r.Token,
			Metadata: r.Metadata, ObservedAt: at,
		}}}
	}
	r = s.grant(name, owner, metadata, ttl)
	return answer{rows: []any{db.AcquireLeaseRow{
		Granted: true, OwnerID: owner, AcquiredAt: at, ExpiresAt: at.Add(ttl), HeartbeatAt: at, Token: r.Token, ObservedAt: at, XID: "1",
	}}}
}

func (s *Server) take(args []driver.NamedValue) (a answer) {
	owner, ttl, metadata, name := args[0].Value.(string), seconds(args[1]), args[2].Value.(string), args[3].Value.(string)
	if r := s.rows[name]; r != nil && !r.ExpiresAt.After(now()) && !r.Locked {
		r = s.grant(name, owner, metadata, ttl)
		a.rows = append(a.rows, db.TakeLeaseRow{AcquiredAt: r.AcquiredAt, ExpiresAt: r.ExpiresAt, Token: r.Token, XID: "1"})
	}
	return a
}

func (s *Server) grant(name, owner, metadata string, ttl time.Duration) *Row {
	at := now()
	token := at.UnixMicro()
	if r := s.rows[name]; r != nil {
		token = max(token, r.Token+1)
	}
	s.rows[name] = &Row{
		Name: name, Owner: owner, AcquiredAt: at, ExpiresAt: at.Add(ttl), HeartbeatAt: at, Token: token, Metadata: metadata,
	}
	return s.rows[name]
}

func (s *Server) renew(args []driver.NamedValue) (answer, error) {
	var terms []struct {
		Name       string  `json:"name"`
		Token      int64   `json:"token"`
		TTLSeconds float64 `json:"ttl_seconds"`
	}
	if err := json.Unmarshal([]byte(args[1].Value.(string)), &terms); err != nil {
		return answer{}, fmt.Errorf("%w: %w", Error("22P02"), err)
	}
	a := answer{}
	for _, t := range terms {
		r := s.current(t.Name, args[0].Value.(string), t.Token)
		renewed, expires := r != nil && !r.Locked, time.Time{}
		if renewed {
			r.HeartbeatAt = now()
			r.ExpiresAt = r.HeartbeatAt.Add(time.Duration(t.TTLSeconds * float64(time.Second)))
			expires = r.ExpiresAt
		}
		a.rows = append(a.rows, db.RenewLeasesRow{
			Name: t.Name, Token: t.Token, Renewed: renewed, Current: r != nil, ExpiresAt: expires, XID: "1",
		})
	}
	return a, nil
}

// release waits for a row that is locked, as UPDATE does.
func (s *Server) release(ctx context.Context, args []driver.NamedValue) (answer, error) {
	name := args[1].Value.(string)
	for r := s.rows[name]; r != nil && r.Locked; r = s.rows[name] {
		s.mu.Unlock()
		wait := time.NewTimer(time.Millisecond)
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return answer{}, ctx.Err()
		}
	}
	r := s.current(name, args[2].Value.(string), args[3].Value.(int64))
	if r == nil {
		return answer{}, nil
	}
	r.end(seconds(args[0]))
	return answer{affected: 1}, nil
}

func (s *Server) withdraw(args []driver.NamedValue) (a answer, err error) {
	var names []string
	if err := json.Unmarshal([]byte(args[0].Value.(string)), &names); err != nil {
		return a, fmt.Errorf("%w: %w", Error("22P02"), err)
	}
	for _, name := range names {
		r := s.rows[name]
		if r == nil {
			continue
		}
		var metadata struct{ Attempt string }
		_ = json.Unmarshal([]byte(r.Metadata), &metadata)
		if metadata.Attempt == args[2].Value.(string) && s.current(r.Name, args[1].Value.(string), r.Token) != nil {
			r.end(0)
			a.affected++
		}
	}
	return a, nil
}

func (s *Server) force(args []driver.NamedValue) (a answer) {
	r := s.rows[args[0].Value.(string)]
	if r == nil || r.Locked || args[1].Value != nil && args[1].Value.(int64) != r.Token {
		return a
	}
	a.rows = append(a.rows, db.ForceReleaseLeaseRow{
		TaskName: r.Name, OwnerID: r.Owner, AcquiredAt: r.AcquiredAt, ExpiresAt: r.ExpiresAt, HeartbeatAt: r.HeartbeatAt,
		Token: r.Token, Metadata: r.Metadata, ObservedAt: now(), XID: "1",
	})
	r.Token = max(r.Token+1, now().UnixMicro())
	if r.ExpiresAt.After(now()) {
		r.ExpiresAt = now()
	}
	r.HeartbeatAt = r.ExpiresAt
	return a
}

func (s *Server) purge(args []driver.NamedValue) (a answer) {
	for name, r := range s.rows {
		if !r.Locked && !r.ExpiresAt.After(now().Add(-seconds(args[0]))) && r.Token < now().UnixMicro() {
			delete(s.rows, name)
			a.affected++
		}
	}
	return a
}
