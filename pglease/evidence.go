package pglease

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/pglease/pglease-go/db"
)

// evidence is what a hybrid holder writes into its row about its session (AcquireWithSession in queries/session.sql).
type evidence struct {
	Owner      string `json:"owner"`
	Token      int64  `json:"token"`
	AcquiredUS int64  `json:"acquired_us"`
	NoticeMS   *int64 `json:"notice_ms"`
}

// decodeEvidence returns nothing for what is not evidence.
func decodeEvidence(column string) (e evidence) {
	if column == "" || json.Unmarshal([]byte(column), &e) != nil {
		return evidence{}
	}
	return e
}

// counts reports whether e is the evidence of the row's term: a Python worker takes a row over without touching it (H3).
func (e evidence) counts(row db.GetLeaseRow) bool {
	return e != evidence{} && e.Owner == row.OwnerID && e.Token == row.Token && e.AcquiredUS == row.AcquiredAt.UnixMicro()
}

// notice is how long a holder may take to hear that its session has ended, at the most; negative, if it does not say.
func (e evidence) notice() time.Duration {
	if e.NoticeMS == nil {
		return -1
	}
	return time.Duration(*e.NoticeMS) * time.Millisecond
}

// restorable makes settings that a server has answered fit to be given back: one that does not know its keepalives (Windows) says -1, and takes 0 for what
// the system has.
func restorable(settings string) string { return strings.ReplaceAll(settings, "-1", "0") }

// silence is for how long the server is to wait for a silent client of a lease with that TTL: its trust has ended by then, and the server is to bury it
// soon after the TTL and not hours later (S9). Keepalives, and unacknowledged data, give up a second after it; the statements that grant a
// lease set them, and switch off what a role or a database may have set against it (T6). Both end where the settings do: a server begins to ask after 9.1
// hours at the latest, and on Linux goes on until the second has ended, which is after 24.8 days at the latest, however long the TTL is.
func silence(ttl time.Duration) (keepalivesIdle, userTimeoutMS int64) {
	seconds := int64((ttl + time.Second - 1) / time.Second)
	return min(max(1, seconds-2), math.MaxInt16), min((seconds+1)*1000, math.MaxInt32)
}
