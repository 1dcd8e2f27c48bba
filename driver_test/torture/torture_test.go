//go:build linux

package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/internal/history"
)

// What is written down is read back as one operation, and what was not finished as one of unknown outcome.
func TestRecorderAndHistoryAgree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "client")
	r, err := newRecorder(path, 7, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	o := r.call(0, history.Try, "a", 0)
	o.Token = 10
	r.end(o, history.OK, nil)
	r.call(0, history.Renew, "a", 10)
	r.write(history.Op{Action: history.Stall, Call: 1, Return: 2})
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var h history.History
	if err := h.Read(f); err != nil {
		t.Fatal(err)
	}
	h.Sort()
	if len(h.Ops) != 3 || h.Ops[1].Outcome != history.OK || h.Ops[1].Client != 7 || h.Ops[2].Outcome != history.Unknown || len(h.Faults) != 1 {
		t.Errorf("read back %+v, %+v", h.Ops, h.Faults)
	}
	if got := r.trust(); got != 1800*time.Millisecond {
		t.Errorf("a TTL of 2 s is trusted for %v", got)
	}
}

func TestCommonClockFollowsTheLocalOne(t *testing.T) {
	const exact = int64(time.Millisecond)
	before := now()
	got := common(time.Now().Add(time.Hour)) - int64(time.Hour)
	if got < before-exact || got > now()+exact {
		t.Errorf("now is %d, or %d by the local clock", before, got)
	}
}

// A failover ends the connections to the primary before, and new ones lead to the next.
func TestGateLeadsToThePrimary(t *testing.T) {
	server := func(name string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				_, _ = io.WriteString(c, name)
			}
		}()
		return l.Addr().String()
	}
	first, second := server("first!"), server("second")
	g, err := newGate(first)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	ask := func(want string) net.Conn {
		c, err := net.Dial("tcp", g.address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			t.Fatalf("%q answers, want %q: %v", got, want, err)
		}
		return c
	}
	c := ask("first!")
	g.lead(second)
	if _, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("the connection to the primary before: %v", err)
	}
	ask("second")
}
