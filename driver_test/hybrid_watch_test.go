package driver_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"
	"time"

	"github.com/XSAM/otelsql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"

	"github.com/pglease/pglease-go/driver_test/internal/faultproxy"
	"github.com/pglease/pglease-go/pglease"
)

// checkEvery is the session check of these tests.
const checkEvery = 300 * time.Millisecond

// noticeWithin is how long a holder may take to hear that its session has ended, on a loaded machine; what it takes on a quiet
// one is measured by driver_test/bench.
func noticeWithin(k kind) time.Duration {
	if k.name == libpq.name {
		return checkEvery + 100*time.Millisecond + time.Second
	}
	return time.Second
}

// mustNotice checks that l is lost for its session's end within the bound, and that the next one follows.
func mustNotice(t *testing.T, l *pglease.Lease, bound time.Duration, end func()) {
	t.Helper()
	begun := time.Now()
	end()
	lossOf(t, l, pglease.LossSession)
	took := time.Since(begun)
	t.Logf("noticed after %v", took)
	if took > bound {
		t.Errorf("noticed after %v, want %v at the most", took, bound)
	}
}

// TestSessionTerminated: the holder hears of it, and the lock is the next one's.
func TestSessionTerminated(t *testing.T) {
	each(t, three, func(t *testing.T, e *env, k kind) {
		db := e.hybridPool(t, k, e.dsn())
		c := hybridClient(t, db, pglease.WithSessionCheck(checkEvery))
		for range 3 {
			l := mustAcquire(t, c, e.schema)
			told := make(chan struct{})
			context.AfterFunc(l.Context(), func() { close(told) })
			mustNotice(t, l, noticeWithin(k), func() { e.terminate(t) })
			await(t, "the lease's context", told)
			mustBeLossOf(t, l.Renew(testContext(t)), l, pglease.LossSession)
			mustBeLossOf(t, l.Release(testContext(t)), l, pglease.LossSession)
			next := mustAcquire(t, hybridClient(t, db), e.schema)
			if next.Token() <= l.Token() {
				t.Errorf("token %d after %d", next.Token(), l.Token())
			}
			mustRelease(t, next)
		}
	})
}

// TestServerCrashEndsTheLease, which a table-mode lease would survive: its lock is gone (S3).
func TestServerCrashEndsTheLease(t *testing.T) {
	p := breaking.get(t, "local")
	noGoroutineLeft(t)
	for _, k := range two {
		t.Run(k.name, func(t *testing.T) {
			e := newEnvAt(t, p).table()
			c := hybridClient(t, e.open(t, k, e.dsn()), pglease.WithSessionCheck(checkEvery), pglease.WithTTL(4*time.Second))
			l := mustTry(t, c, e.schema)
			mustNotice(t, l, noticeWithin(k), func() {
				if err := p.Crash(); err != nil {
					t.Fatal(err)
				}
			})
			if err := p.Restart(testContext(t)); err != nil {
				t.Fatal(err)
			}
			next := mustAcquire(t, c, e.schema)
			if next.AcquiredAt().Before(l.ExpiresAt()) {
				t.Errorf("acquired at %v: the evidence of another server run was believed, before %v", next.AcquiredAt(), l.ExpiresAt())
			}
			mustRelease(t, next)
		})
	}
}

// TestSocketReset: the network has ended the session for the client; the server hears of it too.
func TestSocketReset(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		proxy, err := faultproxy.Start(e.dsn())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Stop)
		c := hybridClient(t, e.open(t, k, proxy.DSN()), pglease.WithSessionCheck(checkEvery))
		l := mustTry(t, c, e.schema)
		mustNotice(t, l, noticeWithin(k), func() { _ = proxy.Reset() })
		mustRelease(t, mustAcquire(t, hybridClient(t, e.hybridPool(t, k, e.dsn())), e.schema))
	})
}

// opaque is a driver whose connections are wrapped by something that has nothing of what they can do: no ping, no context, no
// way to what is inside.
type opaque struct{ driver.Connector }

func (o opaque) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := o.Connector.Connect(ctx)
	return struct{ driver.Conn }{c}, err
}

func (o opaque) Driver() driver.Driver { return o.Connector.Driver() }

// TestWrappedDrivers (P10): through otelsql the driver's connection is found; where nothing is offered, the session check does.
func TestWrappedDrivers(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		var connector driver.Connector
		if k.name == libpq.name {
			c, err := pq.NewConnector(e.dsn())
			if err != nil {
				t.Fatal(err)
			}
			connector = c
		} else {
			c, err := pgx.ParseConfig(e.dsn())
			if err != nil {
				t.Fatal(err)
			}
			connector = stdlib.GetConnector(*c)
		}
		for name, db := range map[string]*sql.DB{
			"otelsql": otelsql.OpenDB(connector),
			"opaque":  sql.OpenDB(opaque{connector}),
		} {
			t.Cleanup(func() { _ = db.Close() })
			check, bound := time.Hour, time.Second // only a watch can notice in time
			if k.name == libpq.name || name == "opaque" {
				check, bound = checkEvery, checkEvery+100*time.Millisecond+time.Second
			}
			c := hybridClient(t, db, pglease.WithSessionCheck(check))
			lease := e.schema + name
			l := mustTry(t, c, lease)
			for range 20 {
				if err := l.Renew(testContext(t)); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if info, err := c.Get(testContext(t), lease); err != nil || info.Mode != pglease.ModeHybrid {
				t.Errorf("%s: %+v, %v", name, info, err)
			}
			mustNotice(t, l, bound, func() { e.terminate(t) })
			mustRelease(t, mustAcquire(t, c, lease))
			e.noLock()
		}
	})
}
