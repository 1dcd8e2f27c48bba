package history

import (
	"strings"
	"testing"
	"time"
)

// A story is a history made by hand. Times are milliseconds; the lease is "a"; client 1 is a hybrid one, client 2 a table one.
type story struct {
	h   History
	ids int64
}

const ms = int64(time.Millisecond)

func newStory() *story {
	s := &story{}
	s.h.Ops = []Op{
		{Client: 1, Action: Hello, Who: &Who{Driver: "pgx", Backend: "hybrid", Route: "direct", TTL: time.Second}},
		{Client: 2, Action: Hello, Who: &Who{Driver: "pq", Backend: "table", Route: "proxy", TTL: time.Second}},
	}
	return s
}

func (s *story) op(client int, action Action, call, ret, token int64, outcome Outcome) *Op {
	s.ids++
	s.h.Ops = append(s.h.Ops, Op{
		Client: client, ID: s.ids, Action: action, Call: call * ms, Return: ret * ms, Outcome: outcome, Name: "a", Token: token, Owner: owners[client],
	})
	return &s.h.Ops[len(s.h.Ops)-1]
}

var owners = []string{"", "one", "two"}

// grant has a client be granted a term, trusted for at most 900 ms.
func (s *story) grant(client int, call, token int64) {
	o := s.op(client, Try, call, call+2, token, OK)
	o.Deadline = (call + 900) * ms
}

func (s *story) release(client int, call, token int64) {
	s.op(client, Release, call, call+2, token, OK)
	s.distrust(client, call, token)
}

func (s *story) distrust(client int, at, token int64) {
	s.h.Ops = append(s.h.Ops, Op{Client: client, Action: Distrust, Call: at * ms, Return: at * ms, Name: "a", Token: token, Deadline: (at + 500) * ms})
}

// write has a client make a guarded write: CheckTx is called at call, and the commit from commit on.
func (s *story) write(client int, call, commit, token, seq, readToken int64) {
	s.op(client, Check, call, call+2, token, OK)
	o := s.op(client, Commit, commit, commit+2, token, OK)
	o.Seq = seq
	s.h.Writes = append(s.h.Writes, Write{Name: "a", Seq: seq, Token: token, ReadToken: readToken, Client: client, ID: o.ID})
}

func (s *story) fault(kind Kind, at, until int64, client int) {
	s.h.Faults = append(s.h.Faults, Fault{Kind: kind, At: at * ms, Until: until * ms, Client: client})
}

// sees returns what the checkers find: the texts of violations, and the reasons of exclusions.
func (s *story) sees(check func(*History) Verdict) (violations string, excluded map[string]int) {
	s.h.Sort()
	v := check(&s.h)
	var texts []string
	for _, violation := range v.Violations {
		texts = append(texts, violation.Text)
	}
	return strings.Join(texts, "; "), v.Excluded
}

// rejected checks that the checker finds what a text says, and nothing else.
func (s *story) rejected(t *testing.T, check func(*History) Verdict, text string) {
	t.Helper()
	got, _ := s.sees(check)
	if !strings.Contains(got, text) || strings.Contains(got, ";") {
		t.Errorf("found %q instead of one violation: %q", got, text)
	}
}

// accepted checks that no checker finds anything.
func (s *story) accepted(t *testing.T) {
	t.Helper()
	for _, check := range []func(*History) Verdict{Linear, Tokens, Writes, Trust, End} {
		if got, _ := s.sees(check); got != "" {
			t.Errorf("found in a good history: %s", got)
		}
	}
}

// excuses checks that the checker finds nothing, but counts one thing apart for a reason.
func (s *story) excuses(t *testing.T, check func(*History) Verdict, reason string) {
	t.Helper()
	if got, excluded := s.sees(check); got != "" || excluded[reason] == 0 {
		t.Errorf("found %q, and excluded %v, instead of %q", got, excluded, reason)
	}
}

// good is a history in which nothing is wrong.
func good() *story {
	s := newStory()
	s.grant(1, 0, 10)
	s.op(2, Try, 5, 7, 10, Held).Owner = "one"
	s.op(1, Renew, 300, 302, 10, OK).Deadline = 1200 * ms
	s.write(1, 310, 320, 10, 1, 0)
	s.op(2, Try, 500, 1500, 0, Unknown)
	s.op(1, Look, 600, 601, 10, OK).ID = 0
	s.release(1, 700, 10)
	s.op(2, Acquire, 400, 710, 20, OK).Start = 703 * ms // it waited
	s.write(2, 720, 730, 20, 2, 10)
	s.op(1, Check, 731, 733, 10, Gone)
	s.op(2, Get, 740, 742, 20, OK).Live = true
	s.op(2, Force, 750, 752, 20, OK)
	s.op(2, Renew, 753, 755, 20, Gone)
	s.distrust(2, 756, 20)
	s.grant(1, 760, 31)
	s.release(1, 780, 31)
	s.h.Left.Names = 1
	return s
}
