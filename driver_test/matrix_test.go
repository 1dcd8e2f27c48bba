package driver_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/pgleasetest"
)

// A backend is how the conformance suite makes its clients.
type backend struct {
	name string
	mode pglease.Mode
	opts []pglease.Option
}

var (
	tableBackend  = backend{name: "table", mode: pglease.ModeTable}
	hybridBackend = backend{"hybrid", pglease.ModeHybrid, hybrid()}
)

var backends = []backend{tableBackend}

// TestConformance runs the suite that every backend must pass, for every driver, on a *sql.DB and on a *sql.Conn (P2, P12).
func TestConformance(t *testing.T) {
	noGoroutineLeft(t)
	for _, b := range backends {
		for _, k := range three {
			for _, onConn := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%s", b.name, k.name, handle(onConn)), func(t *testing.T) {
					e := newEnv(t).table()
					conform(t, e, b, k, onConn, e.dsn())
				})
			}
		}
	}
}

// TestConformanceOverTLS and TestConformanceOverUnixSocket: a read that a deadline has interrupted leaves a TLS stream or a
// socket unusable in other ways than a TCP connection (P9).
func TestConformanceOverTLS(t *testing.T) {
	overOtherTransport(t, secure.get(t, "tls"), pgserver.TLS())
}

func TestConformanceOverUnixSocket(t *testing.T) {
	overOtherTransport(t, secure.get(t, "unix"), pgserver.Unix())
}

func overOtherTransport(t *testing.T, p *place, way pgserver.DSNOption) {
	t.Helper()
	noGoroutineLeft(t)
	for _, b := range backends {
		for _, k := range two {
			t.Run(b.name+"/"+k.name, func(t *testing.T) {
				e := newEnvAt(t, p).table()
				conform(t, e, b, k, false, e.dsn(way))
			})
		}
	}
}

func handle(onConn bool) string {
	if onConn {
		return "Conn"
	}
	return "DB"
}

func conform(t *testing.T, e *env, b backend, k kind, onConn bool, dsn string) {
	t.Helper()
	db := e.open(t, k, dsn)
	var conns atomic.Int64
	pgleasetest.Run(t, func(t *testing.T) pgleasetest.Harness {
		return pgleasetest.Harness{
			Mode: b.mode,
			NewClient: func(t *testing.T, opts ...pglease.Option) *pglease.Client {
				opts = append(append([]pglease.Option{}, b.opts...), opts...)
				var d pglease.DB = db
				if onConn {
					conns.Add(1)
					d = conn(t, db)
				}
				c, err := pglease.New(d, opts...)
				if err != nil {
					t.Fatal(err)
				}
				return c
			},
			Expire: func(t *testing.T, name string) {
				e.change(t, "UPDATE pglease_leases SET expires_at = clock_timestamp() WHERE task_name = $1", name)
			},
			Delete: func(t *testing.T, name string) {
				e.change(t, "DELETE FROM pglease_leases WHERE task_name = $1", name)
			},
			Begin: func(t *testing.T) *sql.Tx { return begin(t, db, nil) },
		}
	})
	if onConn && conns.Load() == 0 {
		t.Error("no client was given a *sql.Conn")
	}
}

// change changes one row as superuser.
func (e *env) change(t *testing.T, statement, name string) {
	t.Helper()
	result, err := e.admin.ExecContext(testContext(t), statement, name)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := result.RowsAffected(); n != 1 || err != nil {
		t.Fatalf("%s: %d rows, %v", statement, n, err)
	}
}

// begin begins a transaction that is rolled back when t ends, if it has not ended before.
func begin(t *testing.T, db *sql.DB, opts *sql.TxOptions) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}
