//go:build unix

package driver_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pglease/pglease-go/driver_test/pgserver"
)

// A fleet is processes of all kinds that use one name, and what they have said.
type fleet struct {
	t       *testing.T
	mu      sync.Mutex
	terms   map[string]*interval
	latest  string // who has said last that it believes
	refused int
	readers sync.WaitGroup
}

// An interval is how long one process has believed to hold.
type interval struct {
	kind     string
	token    int64
	from, to int64
}

// A worker is a process of the fleet.
type worker struct {
	task  mixedTask
	child *child
	life  int
}

func (f *fleet) start(w *worker) {
	w.life++
	w.task.Seed++
	w.child = spawn(f.t, "mixed worker", w.task)
	c, life := w.child, fmt.Sprintf("%s/%d", w.task.Who, w.life)
	kind, who := w.task.Kind, w.task.Who
	f.readers.Go(func() {
		for c.lines.Scan() {
			var n mixedNews
			if json.Unmarshal(c.lines.Bytes(), &n) != nil {
				continue // the last line of one that was killed
			}
			f.hear(kind, who, fmt.Sprintf("%s/%d", life, n.Term), n)
		}
	})
}

func (f *fleet) hear(kind, who, term string, n mixedNews) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.At != 0 {
		f.latest = who
	}
	switch n.What {
	case refused:
		f.refused++
	case misjudged:
		f.t.Errorf("a hybrid client behind a transaction pooler was granted token %d", n.Token)
	case granted:
		f.terms[term] = &interval{kind, n.Token, n.At, n.At}
	case trusted:
		f.terms[term].to = n.At
	}
}

// holder returns who has believed last to hold, or otherwise other.
func (f *fleet) holder(workers []*worker, other *worker) *worker {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range workers {
		if w.task.Who == f.latest {
			return w
		}
	}
	return other
}

// judge checks that no two believed at the same time, and that tokens rise in the order of the grants.
func (f *fleet) judge() {
	f.mu.Lock()
	defer f.mu.Unlock()
	type named struct {
		name string
		*interval
	}
	var all []named
	count := map[string]int{}
	for name, i := range f.terms {
		all = append(all, named{name, i})
		count[i.kind]++
	}
	slices.SortFunc(all, func(a, b named) int { return cmp.Compare(a.from, b.from) })
	var last named
	var token int64
	for n, i := range all {
		if n > 0 && i.from <= last.to {
			f.t.Errorf("%s (token %d) believed from %v on, %s (token %d) until %v: %v together",
				i.name, i.token, time.Unix(0, i.from), last.name, last.token, time.Unix(0, last.to), time.Duration(last.to-i.from))
		}
		if n == 0 || i.to > last.to {
			last = i
		}
		if i.token != 0 && i.token <= token {
			f.t.Errorf("%s: token %d after %d", i.name, i.token, token)
		}
		token = max(token, i.token)
	}
	f.t.Logf("terms: %v; %d refusals of a hybrid client behind a pooler", count, f.refused)
	// Who wins is chance, and hybrid waiters, who queue on the server, win most: a mixture it must have been.
	if len(count) < 2 {
		f.t.Errorf("the workers of one kind held all the time: %v", count)
	}
	if f.refused == 0 {
		f.t.Error("the client behind the pooler has not tried")
	}
}

// TestMixedFleetWithFaults: table, hybrid and Python workers, and a hybrid client behind a transaction pooler, use one name in
// several processes, which are killed, stopped for shorter and longer than the TTL, lose their sessions and their server.
// There are never two who believe to hold it, and tokens rise.
func TestMixedFleetWithFaults(t *testing.T) {
	p := breaking.get(t, "local")
	e := newEnvAt(t, p).table()
	b := e.bouncer(t, "transaction")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	const ttl = 2 * time.Second
	f := &fleet{t: t, terms: make(map[string]*interval)}
	var workers []*worker
	for i, kind := range []string{"hybrid", "hybrid", "hybrid", "table", "python", "pooled"} {
		task := mixedTask{oneTask{two[i%2].name, e.dsn()}, kind, fmt.Sprintf("%s %d", kind, i), e.schema, ttl, seed + uint64(1000*i)}
		if kind == "pooled" {
			task.oneTask = oneTask{libpq.name, b.DSN(e.database, pgserver.Param("application_name", e.app))}
		}
		w := &worker{task: task}
		f.start(w)
		workers = append(workers, w)
	}
	faults := map[string]int{}
	length := time.Duration(sooner(25, 8)) * time.Second
	restartAt := time.Now().Add(length / 2)
	for end := time.Now().Add(length); time.Now().Before(end); {
		time.Sleep(time.Duration(100+rnd.IntN(500)) * time.Millisecond)
		w := workers[rnd.IntN(len(workers))]
		if rnd.IntN(3) > 0 { // a holder is worth more than those who wait
			w = f.holder(workers, w)
		}
		switch n := rnd.IntN(10); {
		case !restartAt.IsZero() && time.Now().After(restartAt):
			restartAt = time.Time{}
			restart(t, p)
			faults["restart"]++
		case n < 3:
			_ = w.child.cmd.Process.Kill()
			f.start(w)
			faults["kill"]++
		case n < 7:
			// Nothing else ends a session while its process is stopped: that is the one case that the contract excludes
			// (rule 2), unless the bound is the TTL.
			pause := ttl / 4
			if n < 5 {
				pause = ttl * 3 / 2
			}
			_ = w.child.cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(pause)
			_ = w.child.cmd.Process.Signal(syscall.SIGCONT)
			faults[fmt.Sprintf("stop for %v", pause)]++
		default:
			if pid := e.holderPID(); pid != 0 {
				e.exec("SELECT pg_terminate_backend($1)", pid)
				faults["termination"]++
			}
		}
	}
	for _, w := range workers {
		w.child.stop()
	}
	readersDone := make(chan struct{})
	go func() { f.readers.Wait(); close(readersDone) }()
	await(t, "the end of the processes", readersDone)
	for _, w := range workers {
		if err := w.child.cmd.Wait(); err != nil {
			t.Errorf("%s: %v: %s", w.task.Who, err, w.child.errs.text)
		}
	}
	t.Logf("faults: %v", faults)
	f.judge()
	e.noLock()
}
