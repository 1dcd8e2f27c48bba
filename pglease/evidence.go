package pglease

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/pglease/pglease-go/db"
)

// evidence is what a hybrid holder writes into its row about its session (AcquireWithSession in queries/session.sql).
type evidence struct {
	Owner      string `json:"owner"`
	Token      int64  `json:"token"`
	AcquiredUS int64  `json:"acquired_us"`
	PID        int32  `json:"pid"`
	NoticeMS   int64  `json:"notice_ms"`
}

// evidenceOf reads the evidence of a row. It counts only for the term that it was written with: a Python worker takes a row
// over without touching it (H3).
func evidenceOf(row db.GetLeaseRow) (e evidence, counts bool) {
	if row.Session == "" || json.Unmarshal([]byte(row.Session), &e) != nil {
		return evidence{}, false
	}
	return e, e.Owner == row.OwnerID && e.Token == row.Token && e.AcquiredUS == row.AcquiredAt.UnixMicro()
}

// notice is how long a holder may take to hear that its session has ended, at the most.
func (e evidence) notice() time.Duration { return time.Duration(e.NoticeMS) * time.Millisecond }

// sessionSettings are what a pinned session needs for a lease of that TTL, as JSON. What a role or a database may have set
// against it is switched off (T6). The server is to bury a silent client, whose trust has ended by then, soon after the TTL
// and not hours later (S9): keepalives, and unacknowledged data, give up a second after it. rowWait is how long a
// statement waits for the lease's row.
func sessionSettings(ttl, rowWait time.Duration) string {
	seconds := int64((ttl + time.Second - 1) / time.Second)
	settings, _ := json.Marshal(map[string]string{
		"statement_timeout":       "0",
		"transaction_timeout":     "0", // 17 and later
		"idle_session_timeout":    "0", // 14 and later
		"lock_timeout":            strconv.FormatInt(rowWait.Milliseconds(), 10),
		"tcp_keepalives_idle":     strconv.FormatInt(max(1, seconds-2), 10),
		"tcp_keepalives_interval": "1",
		"tcp_keepalives_count":    "3",
		"tcp_user_timeout":        strconv.FormatInt((seconds+1)*1000, 10),
	})
	return string(settings)
}
