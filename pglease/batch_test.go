package pglease_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglease/pglease-go/pglease"
	"github.com/pglease/pglease-go/pglease/internal/fakedb"
)

// names returns the names of a batch of renewals.
func names(t *testing.T, st fakedb.Statement) (names []string) {
	t.Helper()
	var terms []struct{ Name string }
	if err := json.Unmarshal([]byte(st.Args[1].Value.(string)), &terms); err != nil {
		t.Error(err)
	}
	for _, term := range terms {
		names = append(names, term.Name)
	}
	return names
}

// Design section 9: 10,000 leases with a TTL of 30 s, at most 2 statements a second and 1,000 leases a statement, 1 goroutine and
// 4 KiB a lease at the most.
func TestTenThousandLeasesAreRenewedInBatches(t *testing.T) {
	n := 10000
	if raceDetector { // it takes a minute, and memory and statements are another's
		n = 2000
	}
	for _, pattern := range []struct {
		name   string
		spread time.Duration // between two acquires
	}{{"at once", 0}, {"one after the other", 3 * time.Millisecond}} {
		t.Run(pattern.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
				c := open(t, db)
				goroutines := runtime.NumGoroutine()
				memory := heap()
				leases := make([]*pglease.Lease, n)
				for i := range leases {
					leases[i] = acquire(t, c, fmt.Sprintf("%s/%05d", t.Name(), i))
					time.Sleep(pattern.spread)
				}
				synctest.Wait()
				if more := runtime.NumGoroutine() - goroutines; more > 10 {
					t.Errorf("%d goroutines for %d leases", more, n)
				}
				if each := (heap() - memory) / int64(n); each > 4096 && !raceDetector {
					t.Errorf("%d bytes a lease (the fake database's share included), want 4 KiB at the most", each)
				}
				server.Forget()
				start := time.Now()
				time.Sleep(65 * time.Second)
				sent := server.Sent("")
				if perSecond := float64(len(sent)) / time.Since(start).Seconds(); perSecond > 2 {
					t.Errorf("%.2f statements a second", perSecond)
				}
				open, _ := server.Connections()
				if open > 2 {
					t.Errorf("%d connections", open)
				}
				renewed := make(map[string]time.Time)
				for _, st := range sent {
					if st.Name != "RenewLeases" {
						t.Errorf("statement %s", st.Name)
						continue
					}
					batch := names(t, st)
					if len(batch) > 1000 {
						t.Errorf("%d leases in one statement", len(batch))
					}
					for i, name := range batch {
						if i > 0 && batch[i-1] >= name {
							t.Fatalf("not in a stable order: %q before %q", batch[i-1], name)
						}
						if last, ok := renewed[name]; ok && st.At.Sub(last) > 10*time.Second+time.Millisecond {
							t.Fatalf("%q was renewed after %v", name, st.At.Sub(last))
						}
						renewed[name] = st.At
					}
				}
				for _, l := range leases {
					if l.Err() != nil || renewed[l.Name()].IsZero() {
						t.Fatalf("%q: %v, last renewed %v", l.Name(), l.Err(), renewed[l.Name()])
					}
				}
			})
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func acquireMany(t *testing.T, c *pglease.Client, n int) []*pglease.Lease {
	t.Helper()
	leases := make([]*pglease.Lease, n)
	for i := range leases {
		leases[i] = acquire(t, c, fmt.Sprintf("%s/%03d", t.Name(), i))
	}
	return leases
}

func TestOneLockedRowDoesNotHarmTheBatch_H6(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		start := time.Now()
		leases := acquireMany(t, c, 100)
		server.Lock(leases[42].Name(), true)
		<-leases[42].Done()
		took(t, "the locked one's end", start, 29*time.Second)
		for i, l := range leases {
			if i != 42 && (l.Err() != nil || l.Deadline().Sub(start) < 49*time.Second) {
				t.Errorf("lease %d: %v, deadline %v", i, l.Err(), l.Deadline().Sub(start))
			}
		}
	})
}

func TestOneGoneRowDoesNotHarmTheBatch_H6(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		leases := acquireMany(t, c, 100)
		server.Edit(leases[42].Name(), func(*fakedb.Row) *fakedb.Row { return nil })
		<-leases[42].Done()
		synctest.Wait()
		for i, l := range leases {
			if i != 42 && l.Err() != nil {
				t.Errorf("lease %d: %v", i, l.Err())
			}
		}
		if n := len(server.Sent("RenewLeases")); n != 1 {
			t.Errorf("%d statements, want 1: it answers for each lease", n)
		}
	})
}

func TestAPoisonRowIsParted_H6(t *testing.T) {
	for _, state := range []fakedb.Error{"40001", "40P01", "22003", "XX001"} {
		t.Run(string(state), func(t *testing.T) {
			bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
				c := open(t, db)
				start := time.Now()
				leases := acquireMany(t, c, 100)
				poison := leases[42].Name()
				server.Before(only("RenewLeases", func(_ context.Context, st fakedb.Statement) error {
					if strings.Contains(st.Args[1].Value.(string), poison) {
						return state
					}
					return nil
				}))
				time.Sleep(19 * time.Second)
				synctest.Wait()
				for i, l := range leases {
					if i != 42 && (l.Err() != nil || l.Deadline().Sub(start) < 39*time.Second) {
						t.Errorf("lease %d: %v, deadline %v", i, l.Err(), l.Deadline().Sub(start))
					}
				}
				if leases[42].Err() != nil {
					t.Errorf("the poisoned one was given up before its time: %v", leases[42].Err())
				}
				<-leases[42].Done()
				took(t, "the poisoned one's end", start, 29*time.Second)
				var failure *pglease.BackendError
				if !errors.As(leases[42].Err(), &failure) || failure.SQLState != string(state) {
					t.Errorf("its cause: %v", leases[42].Err())
				}
			})
		})
	}
}

func TestAFailureOfTheWayToTheServerIsNotParted(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		acquireMany(t, c, 100)
		server.Before(only("RenewLeases", fail(fakedb.Error("57P01"))))
		time.Sleep(15 * time.Second)
		if n := len(server.Sent("RenewLeases")); n != 3 {
			t.Errorf("%d statements in one beat of 100 leases, want 3", n)
		}
	})
}

func TestLeasesOfDifferentTTLsAreRenewedInTheirOwnTime(t *testing.T) {
	bubble(t, func(t *testing.T, server *fakedb.Server, db *sql.DB) {
		c := open(t, db)
		leases := make(map[time.Duration]*pglease.Lease)
		for _, ttl := range []time.Duration{time.Hour, time.Minute, time.Second, 50 * time.Millisecond} {
			leases[ttl] = acquire(t, c, t.Name()+ttl.String(), pglease.WithTTL(ttl))
		}
		start := time.Now()
		time.Sleep(2 * time.Minute)
		counts := make(map[string]int)
		for _, st := range server.Sent("RenewLeases") {
			for _, name := range names(t, st) {
				counts[name]++
			}
		}
		for ttl, l := range leases {
			beats := int(time.Since(start) / (ttl / 3))
			if n := counts[l.Name()]; l.Err() != nil || n < beats-1 || n > beats*4/3+1 {
				t.Errorf("TTL %v: %d heartbeats in 2 minutes, want %d; %v", ttl, n, beats, l.Err())
			}
			// The server's clock has microseconds.
			if got := l.ExpiresAt().Sub(l.Deadline()).Round(time.Microsecond); got != min(time.Second, ttl/10) {
				t.Errorf("TTL %v: expires %v after the deadline", ttl, got)
			}
		}
	})
}
