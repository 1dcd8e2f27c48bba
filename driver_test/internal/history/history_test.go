package history

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestGoodHistoryIsAccepted(t *testing.T) { good().accepted(t) }

// A term must show no life after its end, in whatever way it shows it (O1).
func TestLinearRejectsLifeAfterTheEnd(t *testing.T) {
	for name, tell := range map[string]func(*story){
		"renewed after the next grant":       func(s *story) { s.grant(2, 10, 20); s.op(1, Renew, 20, 22, 10, OK) },
		"renewed after its release":          func(s *story) { s.release(1, 10, 10); s.op(1, Renew, 20, 22, 10, OK) },
		"renewed after the server said gone": func(s *story) { s.op(1, Renew, 10, 12, 10, Gone); s.op(1, Renew, 20, 22, 10, OK) },
		"released after the next grant":      func(s *story) { s.grant(2, 10, 20); s.release(1, 20, 10) },
		"released twice":                     func(s *story) { s.release(1, 10, 10); s.release(1, 20, 10) },
		"current after the next grant":       func(s *story) { s.grant(2, 10, 20); s.op(1, Check, 20, 22, 10, OK) },
		"committed after the next grant": func(s *story) {
			s.op(1, Check, 5, 6, 10, OK)
			s.grant(2, 10, 20)
			s.op(1, Commit, 20, 22, 10, OK)
		},
		"committed after it was forced out": func(s *story) {
			s.op(1, Check, 5, 6, 10, OK)
			s.op(2, Force, 10, 12, 0, OK)
			s.op(1, Commit, 20, 22, 10, OK)
		},
		"renewed after its row was deleted": func(s *story) { s.op(2, Delete, 10, 12, 0, OK); s.op(1, Renew, 20, 22, 10, OK) },
		"renewed after a Python worker took it": func(s *story) {
			s.op(2, Take, 10, 12, -1, OK)
			s.op(1, Renew, 20, 22, 10, OK)
		},
		"held by one who has released":      func(s *story) { s.release(1, 10, 10); s.op(2, Get, 20, 22, 10, OK).seen() },
		"a grant under way explains no two": func(s *story) { s.grant(2, 10, 20); s.op(2, Renew, 13, 15, 20, OK); s.op(1, Renew, 13, 30, 10, OK) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			s.grant(1, 0, 10)
			tell(s)
			s.rejected(t, Linear, "no order of these operations is legal")
		})
	}
}

// seen makes a Get of client 1's live term of o.
func (o *Op) seen() { o.Owner, o.Live = "one", true }

func TestLinearRejectsAnAnswerAboutThePast(t *testing.T) {
	s := newStory()
	s.grant(1, 0, 10)
	s.grant(2, 950, 20)
	s.op(2, Try, 960, 962, 10, Held).Owner = "one"
	s.rejected(t, Linear, "no order of these operations is legal")
}

func TestLinearAcceptsOperationsAtTheSameTime(t *testing.T) {
	s := newStory()
	s.grant(1, 0, 10)
	s.op(1, Renew, 5, 30, 10, OK) // before the grant, although it returned after it
	s.op(2, Acquire, 4, 20, 20, OK)
	s.op(1, Check, 6, 25, 10, OK)
	if got, _ := s.sees(Linear); got != "" {
		t.Error(got)
	}
}

// AcquireAll may hold a name, and renew it, without ever telling.
func TestLinearLeavesOutTermsThatNobodyWasToldOf(t *testing.T) {
	s := newStory()
	s.grant(1, 0, 10)
	s.release(1, 10, 10)
	s.op(2, Acquire, 12, 400, 0, Unknown)
	s.op(2, Renew, 345, 347, 20, OK)
	s.grant(1, 410, 30)
	s.release(1, 420, 30)
	s.accepted(t)
}

// What is found in a long history is shown by a few operations, and the state is carried from one segment into the next.
func TestLinearReducesALongHistory(t *testing.T) {
	s := newStory()
	at := int64(0)
	for token := int64(1); token < 2000; token++ {
		s.grant(1+int(token%2), at, token)
		s.op(1+int(token%2), Renew, at+10, at+12, token, OK)
		s.release(1+int(token%2), at+20, token)
		at += 30
	}
	s.op(1, Renew, at, at+2, 1999, OK)
	s.h.Sort()
	v := Linear(&s.h)
	if len(v.Violations) != 1 || len(v.Violations[0].Ops) > 3 {
		t.Errorf("found %v", v.Violations)
	}
}

func TestTokensRejects(t *testing.T) {
	s := newStory()
	s.grant(1, 0, 10)
	s.release(1, 10, 10)
	s.grant(2, 20, 9)
	s.rejected(t, Tokens, "token 9 was granted after token 10")

	s = newStory()
	s.grant(1, 0, 10)
	s.release(1, 10, 10)
	s.grant(2, 20, 10)
	s.rejected(t, Tokens, "token 10 was granted twice")
}

func TestWritesRejects(t *testing.T) {
	for text, tell := range map[string]func(*story){
		"so one of them is lost":      func(s *story) { s.write(1, 10, 20, 10, 1, 0); s.write(1, 30, 40, 10, 1, 0) },
		"number 3 follows number 1":   func(s *story) { s.write(1, 10, 20, 10, 1, 0); s.write(1, 30, 40, 10, 3, 10) },
		"did not read what":           func(s *story) { s.write(1, 10, 20, 10, 1, 0); s.write(1, 30, 40, 10, 2, 9) },
		"has a lower token":           func(s *story) { s.write(2, 10, 20, 20, 1, 0); s.write(1, 30, 40, 10, 2, 20) },
		"two terms wrote at the same": func(s *story) { s.write(1, 10, 30, 10, 1, 0); s.write(2, 25, 40, 20, 2, 10) },
		"after a later term had been": func(s *story) { s.grant(2, 15, 30); s.write(1, 10, 20, 10, 1, 0) },
		"nobody has asked for this":   func(s *story) { s.h.Writes = append(s.h.Writes, Write{Name: "a", Seq: 1, Token: 10, Client: 7}) },
		"acknowledged write is missing": func(s *story) {
			s.write(1, 10, 20, 10, 1, 0)
			s.h.Writes = nil
		},
	} {
		t.Run(text, func(t *testing.T) {
			s := newStory()
			s.grant(1, 0, 10)
			tell(s)
			s.rejected(t, Writes, text)
		})
	}
}

func TestTrustRejects(t *testing.T) {
	for name, tell := range map[string]func(*story){
		"a grant while another is trusted":       func(s *story) { s.distrust(2, 60, 10) },
		"a loss that was told too late":          func(s *story) { s.distrust(2, 51, 10); s.fault(Stop, 10, 40, 2) },
		"a table holder whose session was ended": func(s *story) { s.fault(Terminate, 20, 21, 2); s.fault(Stop, 10, 40, 2) },
		"a process that was killed later":        func(s *story) { s.fault(Kill, 60, 61, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			s.grant(2, 0, 10)
			s.grant(1, 45, 20)
			tell(s)
			s.rejected(t, Trust, "trusted token 10 until")
		})
	}

	s := newStory()
	s.grant(1, 0, 10)
	s.op(1, Look, 901, 902, 10, OK).ID = 0
	s.rejected(t, Trust, "in order after its deadline")
}

// A process that is stopped beyond its deadline writes down the loss when it wakes; its trust has ended before.
func TestTrustEndsAtTheDeadlineOfAStoppedProcess(t *testing.T) {
	s := newStory()
	s.grant(1, 0, 10)
	s.fault(LongStop, 100, 3000, 1)
	s.grant(2, 1001, 20)
	s.h.Ops = append(s.h.Ops, Op{Client: 1, Action: Distrust, Call: 3001 * ms, Return: 3001 * ms, Name: "a", Token: 10, Deadline: 900 * ms})
	s.accepted(t)
}

func TestTrustEndsWithTheProcess(t *testing.T) {
	s := newStory()
	s.grant(1, 0, 10)
	s.fault(Kill, 20, 21, 1)
	s.grant(2, 130, 20)
	s.accepted(t)
}

// What section 3.8 excludes is counted apart; it takes a fault that explains it.
func TestExclusionsAreCounted(t *testing.T) {
	for _, kind := range []Kind{PromoteAsync, Forward, ForceOut, Remove, Edit} {
		s := newStory()
		s.grant(1, 0, 10)
		s.fault(kind, 20, 30, 0)
		s.grant(2, 45, 20)
		s.excuses(t, Trust, string(kind))
	}

	late := newStory() // the older term is told of later
	late.op(2, Acquire, 19, 165, 20, OK).Deadline = 900 * ms
	late.fault(Remove, 20, 71, 0)
	late.grant(1, 96, 30)
	late.excuses(t, Trust, string(Remove))

	// A stopped process reads its grant when it wakes; its session has been ended, and a Python worker has the next term but one.
	python := newStory()
	python.op(1, Acquire, 17, 580, 10, OK).Deadline = 917 * ms
	python.fault(Stop, 18, 580, 1)
	python.op(2, Take, 297, 299, -8, OK).Deadline = 1197 * ms
	python.rejected(t, Trust, "trusted token -8 until")
	python.fault(Terminate, 18, 32, 1)
	python.excuses(t, Trust, "session ended while its holder was paused or cut off (3.2)")

	python = newStory() // the other way round, nothing explains it
	python.op(2, Take, 7, 9, -8, OK).Deadline = 907 * ms
	python.op(1, Acquire, 17, 580, 10, OK).Deadline = 917 * ms
	python.fault(Stop, 18, 580, 1)
	python.fault(Terminate, 18, 32, 1)
	python.rejected(t, Trust, "trusted token -8 until")

	early := func() *story {
		s := newStory()
		s.grant(1, 0, 10)
		s.fault(Terminate, 20, 21, 1)
		s.grant(2, 145, 20)
		return s
	}
	s := early()
	s.rejected(t, Trust, "trusted token 10 until")
	s = early()
	s.fault(Stop, 10, 150, 2) // somebody else
	s.rejected(t, Trust, "trusted token 10 until")
	s = early()
	s.fault(Stop, 10, 150, 1)
	s.excuses(t, Trust, "session ended while its holder was paused or cut off (3.2)")

	s = newStory()
	s.grant(1, 0, 10)
	s.grant(2, 950, 20)
	s.write(2, 960, 965, 20, 1, 0)
	s.h.Writes = nil
	s.fault(PromoteAsync, 970, 980, 0)
	s.op(1, Renew, 990, 992, 10, OK) // the old term has come to life again
	s.excuses(t, Linear, string(PromoteAsync))
	s.excuses(t, Writes, "acknowledged, then lost by an asynchronous failover")
	s.grant(1, 2000, 30)
	s.release(1, 2010, 30)
	s.op(1, Renew, 2020, 2022, 30, OK)
	s.rejected(t, Linear, "no order of these operations is legal") // what follows is checked again
}

func TestEndRejectsWhatIsLeft(t *testing.T) {
	for text, leave := range map[string]func(*story){
		"did not end free":        func(s *story) { s.h.Left.Held = []string{"a"} },
		"a session is left":       func(s *story) { s.h.Left.Sessions = []string{"idle"} },
		"a lock is left":          func(s *story) { s.h.Left.Locks = []string{"advisory"} },
		"a process is left":       func(s *story) { s.h.Left.Processes = []string{"client 1"} },
		"has 3 goroutines left: ": func(s *story) { s.h.Ops = append(s.h.Ops, Op{Client: 1, Action: Bye, Goroutines: 3}) },
	} {
		s := good()
		leave(s)
		s.rejected(t, End, text)
	}
}

func TestReadTakesAFileThatWasCutOff(t *testing.T) {
	line := func(o Op) string { b, _ := json.Marshal(o); return string(b) + "\n" }
	call := Op{Client: 1, ID: 1, Action: Try, Call: 5, Name: "a"}
	done := call
	done.Return, done.Outcome, done.Token = 9, OK, 10
	second := Op{Client: 1, ID: 2, Action: Renew, Call: 20, Name: "a", Token: 10}
	var h History
	if err := h.Read(strings.NewReader(line(call) + line(done) + line(second) + `{"client":1,"id":2,"act`)); err != nil {
		t.Fatal(err)
	}
	h.Sort()
	if len(h.Ops) != 2 || h.Ops[0].Return != 9 || h.Ops[1].Outcome != Unknown || h.Ops[1].Return != never {
		t.Errorf("read %+v", h.Ops)
	}
	if err := h.Read(strings.NewReader("nonsense\n")); err == nil {
		t.Error("nonsense was read")
	}
}
