package driver_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pglease/pglease-go/db"
	"github.com/pglease/pglease-go/pglease"
)

// TestALateRenewalRevivesNothing (O3): a heartbeat that was under way when the lease was released may reach the server after
// the release. The row is not renewed then, not even while a minimum hold keeps it unexpired.
func TestALateRenewalRevivesNothing(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		ctx := testContext(t)
		pool := e.open(t, k, e.dsn())
		for name, opts := range map[string][]pglease.Option{"table": nil, "hybrid": hybrid()} {
			name := e.schema + name
			l := mustTry(t, client(t, pool, opts...), name, pglease.WithMinHold(time.Hour))
			mustRelease(t, l)
			want := value[time.Time](e, "SELECT expires_at FROM pglease_leases WHERE task_name = $1", name)

			terms, err := json.Marshal([]map[string]any{{"name": name, "token": l.Token(), "ttl_seconds": 7200}})
			if err != nil {
				t.Fatal(err)
			}
			batch, err := db.New().RenewLeases(ctx, e.admin, db.RenewLeasesParams{Owner: l.Owner(), Terms: string(terms)})
			if err != nil || len(batch) != 1 || batch[0].Renewed || batch[0].Current {
				t.Errorf("RenewLeases of a released term: %+v, %v", batch, err)
			}
			one, err := db.New().RenewWithSession(ctx, e.admin, db.RenewWithSessionParams{
				Name: name, Owner: l.Owner(), Token: l.Token(), TTLSeconds: 7200,
			})
			if err != nil || one.Renewed || one.Current {
				t.Errorf("RenewWithSession of a released term: %+v, %v", one, err)
			}
			if got := value[time.Time](e, "SELECT expires_at FROM pglease_leases WHERE task_name = $1", name); !got.Equal(want) {
				t.Errorf("the row of a released term expires at %v, and did so at %v before", got, want)
			}
		}
	})
}

// TestALostTermIsNotRenewedByTheNextOneOfItsName: a client that takes a name again, which an operator has taken from it, may have both
// terms in one heartbeat. (The torture found that, seed 20261130: the answer of one was taken for the other's.)
func TestALostTermIsNotRenewedByTheNextOneOfItsName(t *testing.T) {
	each(t, two, func(t *testing.T, e *env, k kind) {
		c := client(t, e.open(t, k, e.dsn()), pglease.WithTTL(3*time.Second))
		lost := mustTry(t, c, e.schema)
		e.exec("UPDATE pglease_leases SET expires_at = clock_timestamp()")
		l := mustTry(t, c, e.schema)
		terms, err := json.Marshal([]map[string]any{
			{"name": e.schema, "token": lost.Token(), "ttl_seconds": 3},
			{"name": e.schema, "token": l.Token(), "ttl_seconds": 3},
		})
		if err != nil {
			t.Fatal(err)
		}
		batch, err := db.New().RenewLeases(testContext(t), e.admin, db.RenewLeasesParams{Owner: l.Owner(), Terms: string(terms)})
		if err != nil || len(batch) != 2 {
			t.Fatalf("RenewLeases: %+v, %v", batch, err)
		}
		for _, row := range batch {
			if of := row.Token == l.Token(); row.Renewed != of || row.Current != of {
				t.Errorf("of the term of %d, where that of %d is current: renewed %t, current %t", row.Token, l.Token(), row.Renewed, row.Current)
			}
		}
		lossOf(t, lost, pglease.LossGone)
		if err := l.Renew(testContext(t)); err != nil {
			t.Errorf("the term that is current: %v", err)
		}
		mustRelease(t, l)
	})
}
