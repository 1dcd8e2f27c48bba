package driver_test

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
	"github.com/pglease/pglease-go/pglease"
)

// W2, W5: when a hybrid holder's session ends, or pglease is killed, its successor gets the lease only when nobody of the
// command's group is left, though all of them ignore TERM.
func TestRunHybridSuccessorWaitsW2(t *testing.T) {
	e := newEnv(t).table()
	other := e.otherClient(t, pglease.WithHybrid())
	for what, fault := range map[string]func(p *process){
		"its session ends":  func(*process) { e.terminate(t) },
		"pglease is killed": func(p *process) { p.signal(t, syscall.SIGKILL) },
	} {
		t.Run(what, func(t *testing.T) {
			p := e.start(t, "run", "job", "--hybrid", "--grace", "500ms", "--", "sh", "-c", stubborn)
			p.mustPrint(t, "ready")
			fault(p)
			began := time.Now()
			l := mustAcquire(t, other, "job")
			if left := e.processes(); len(left) > 0 {
				t.Errorf("the successor has the lease after %v, and %v run on", time.Since(began), left)
			}
			if d := time.Since(began); d > 10*time.Second {
				t.Errorf("the successor waited for %v: no early takeover", d)
			}
			mustRelease(t, l)
			await(t, "the end of pglease", p.ended)
		})
	}
}

// W1, W2, W5: whatever happens to those who run the command in a loop, two commands never run at once. Each command takes a lock
// of the kernel's, which is free only when the last process of it has ended.
func TestRunNeverTwiceUnderFaultsW2(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		pgserver.NotRun(t, "flock", err.Error())
	}
	e := newEnv(t).table()
	dir := t.TempDir()
	job := `exec 9>` + dir + `/lock
		flock --nonblock 9 || { echo $PGLEASE_TOKEN >>` + dir + `/overlaps; exit 1; }
		echo $PGLEASE_TOKEN >>` + dir + `/grants
		trap "" TERM
		sleep 300 &
		sleep 0.$(($$ % 10))`
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	start := func(n int) *process {
		args := []string{"run", "job", "--loop", "--ttl", "2s", "--grace", "200ms"}
		if n%2 == 0 {
			args = append(args, "--hybrid")
		}
		return e.start(t, append(args, "--", "sh", "-c", job)...)
	}
	var all []*process
	for n := range 4 {
		all = append(all, start(n))
	}
	faults := make(map[string]int)
	for end := time.Now().Add(time.Duration(sooner(6, 3)) * time.Second); time.Now().Before(end); {
		pauseFor(time.Duration(random.IntN(400)) * time.Millisecond)
		n := random.IntN(len(all))
		switch random.IntN(5) {
		case 0:
			faults["killed"]++
			all[n].signal(t, syscall.SIGKILL)
			all[n] = start(n)
		case 1:
			faults["stopped"]++
			all[n].signal(t, syscall.SIGSTOP)
			stopped := all[n]
			timer := time.AfterFunc(time.Duration(random.IntN(3000))*time.Millisecond, func() { _ = stopped.cmd.Process.Signal(syscall.SIGCONT) })
			defer timer.Stop()
		case 2:
			faults["session ended"]++
			e.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", e.app)
		case 3:
			faults["asked to end"]++
			all[n].signal(t, syscall.SIGTERM)
			all[n] = start(n)
		case 4: // nothing
		}
	}
	for _, p := range all {
		p.signal(t, syscall.SIGCONT)
		p.signal(t, syscall.SIGTERM)
		await(t, "the end of pglease", p.ended)
	}
	e.noProcess(t)
	if overlaps := contents(filepath.Join(dir, "overlaps")); overlaps != "" {
		t.Errorf("two ran at once, terms %s", strings.Fields(overlaps))
	}
	var tokens []int64
	for _, word := range strings.Fields(contents(filepath.Join(dir, "grants"))) {
		token, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	if len(tokens) < 2 || !slices.IsSorted(tokens) {
		t.Errorf("tokens of the grants, in their order: %v", tokens)
	}
	t.Log(fmt.Sprintf("%d grants; ", len(tokens)), faults)
}
