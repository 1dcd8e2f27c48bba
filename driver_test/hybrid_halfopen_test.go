package driver_test

import (
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

// cutPort has the kernel drop every packet between a client's port and the server's: the peers' kernels do not answer either,
// which no proxy can show. It ends the test as not run where that is not allowed.
func cutPort(t *testing.T, client, server string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		pgserver.NotRun(t, "netns", "packets are dropped by iptables, which is Linux's")
	}
	for _, ports := range [][2]string{{client, server}, {server, client}} {
		rule := []string{"INPUT", "-i", "lo", "-p", "tcp", "--sport", ports[0], "--dport", ports[1], "-j", "DROP"}
		if out, err := exec.Command("iptables", append([]string{"-w", "-I"}, rule...)...).CombinedOutput(); err != nil {
			pgserver.NotRun(t, "netns", fmt.Sprintf("iptables: %v: %s", err, strings.TrimSpace(string(out))))
		}
		t.Cleanup(func() {
			if out, err := exec.Command("iptables", append([]string{"-w", "-D"}, rule...)...).CombinedOutput(); err != nil {
				t.Errorf("iptables: %v: %s", err, out)
			}
		})
	}
}

// TestHalfOpenConnection (S9): nothing comes through, in neither direction. The server itself ends the session, by the
// settings that came with the lease and not after two hours; nobody evicts it here.
func TestHalfOpenConnection(t *testing.T) {
	p := breaking.get(t, "local")
	noGoroutineLeft(t)
	for _, k := range two {
		t.Run(k.name, func(t *testing.T) {
			e := newEnvAt(t, p).table()
			db, done, err := k.open(e.dsn(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close(); done() })
			c, err := pglease.New(db, hybrid(pglease.WithTTL(silentTTL), pglease.WithSessionCheck(checkEvery))...)
			if err != nil {
				t.Fatal(err)
			}
			l := mustTry(t, c, e.schema)
			pid := e.holderPID()
			client := value[int](e, "SELECT client_port FROM pg_stat_activity WHERE pid = $1", pid)
			server := value[int](e, "SELECT inet_server_port()")
			cut := time.Now()
			cutPort(t, strconv.Itoa(client), strconv.Itoa(server))

			await(t, "the loss", l.Done())
			if late := time.Since(l.Deadline()); late > lateness {
				t.Errorf("lost %v after the trust deadline", late)
			}
			eventually(t, "the end of the session on the server", func() bool {
				return value[int](e, "SELECT count(*)::int FROM pg_stat_activity WHERE pid = $1", pid) == 0
			})
			took := time.Since(cut)
			t.Logf("TTL %v: the server let go after %v", silentTTL, took)
			if took > silentTTL+5*time.Second {
				t.Errorf("the server let go after %v, want TTL %v and 5 s at the most", took, silentTTL)
			}
			if took < l.Deadline().Sub(cut)-lateness {
				t.Errorf("the server let go after %v, before the trust had ended", took)
			}
			mustRelease(t, mustAcquire(t, hybridClient(t, e.hybridPool(t, k, e.dsn())), e.schema))
			if err := c.Close(testContext(t)); err != nil {
				t.Error(err)
			}
		})
	}
}
