package pglease

import (
	"encoding/json"
	"strconv"
	"time"
)

// A Mode tells how a term is held.
type Mode string

// The modes of a term.
const (
	ModeTable  Mode = "table"  // by the row alone
	ModeHybrid Mode = "hybrid" // by a session's advisory lock and the row
)

// Info is a row of the lease table at the moment it was read. All times are the server's, in UTC.
type Info struct {
	Name        string
	Owner       string
	Token       int64 // 0: the row is a Python worker's, and no Go client had it before
	AcquiredAt  time.Time
	ExpiresAt   time.Time
	HeartbeatAt time.Time         // the last renewal; of a released row, the end of its minimum hold
	ObservedAt  time.Time         // when the server read the row
	Mode        Mode              // of a released row, ModeTable
	Metadata    map[string]string // who holds it: pid, host, program, version and what WithMetadata added; nil, as a rule, of a Python worker's row, and may be otherwise
	Session     *Session          // of a hybrid holder, if the server lists it; only from Get and List
}

// A Session is what the server knows of the session that holds a hybrid lease.
type Session struct {
	PID             int    // of the server's process
	ClientAddr      string // "" for a Unix socket, or if the role may not see it
	ApplicationName string // "" if the role may not see it
}

// Expired reports whether nobody held the lease at ObservedAt. Released is expired too.
func (i Info) Expired() bool { return !i.ExpiresAt.After(i.ObservedAt) }

// Remaining returns for how long the lease was still held at ObservedAt if nobody renewed it. It is 0 if it was expired.
func (i Info) Remaining() time.Duration { return max(0, i.ExpiresAt.Sub(i.ObservedAt)) }

// Zombie reports whether the lease was held at ObservedAt, but its heartbeat had been silent for longer than silence.
func (i Info) Zombie(silence time.Duration) bool {
	return !i.Expired() && i.ObservedAt.Sub(i.HeartbeatAt) > silence
}

// attemptKey is where the row's metadata keep the number of the attempt that was granted (see WithdrawLease in
// queries/lease.sql). It is ours and not shown.
const attemptKey = "attempt"

// decodeMetadata reads the metadata column, which others may write too: what is not a string is shown as its JSON.
func decodeMetadata(column string) map[string]string {
	if column == "" {
		return nil
	}
	var m map[string]string
	if json.Unmarshal([]byte(column), &m) == nil {
		delete(m, attemptKey)
		return m
	}
	var raw map[string]json.RawMessage
	if json.Unmarshal([]byte(column), &raw) != nil {
		return nil
	}
	m = make(map[string]string, len(raw))
	for k, v := range raw {
		var s string
		if json.Unmarshal(v, &s) != nil {
			s = string(v)
		}
		m[k] = s
	}
	delete(m, attemptKey)
	return m
}

// attemptOf reads the number of the attempt that was granted; 0 if the column has none.
func attemptOf(column string) int64 {
	var m struct {
		Attempt string `json:"attempt"`
	}
	if json.Unmarshal([]byte(column), &m) != nil {
		return 0
	}
	n, _ := strconv.ParseInt(m.Attempt, 10, 64)
	return n
}

// encodeMetadata writes m as JSON. Strings cannot fail.
func encodeMetadata(m map[string]string) string {
	if len(m) == 0 {
		return "{}"
	}
	encoded, _ := json.Marshal(m)
	return string(encoded)
}

// metadataColumn is what an attempt writes into the metadata column: the metadata, and which attempt it is.
func (r Request) metadataColumn() string {
	encoded := r.encoded
	if encoded == "" {
		encoded = encodeMetadata(r.Metadata)
	}
	comma := ","
	if encoded == "{}" {
		comma = ""
	}
	return encoded[:len(encoded)-1] + comma + `"` + attemptKey + `":"` + strconv.FormatInt(r.Attempt, 10) + `"}`
}
