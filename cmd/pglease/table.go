package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

// leaseJSON is a row as --json shows it. Times are the server's, in UTC. A row that was released has no heartbeat, and is held all
// the same until a minimum hold ends.
type leaseJSON struct {
	Name             string            `json:"name"`
	Owner            string            `json:"owner"`
	Token            int64             `json:"token"`
	Held             bool              `json:"held"`
	Released         bool              `json:"released"`
	Mode             pglease.Mode      `json:"mode"`
	AcquiredAt       time.Time         `json:"acquired_at"`
	ExpiresAt        time.Time         `json:"expires_at"`
	HeartbeatAt      *time.Time        `json:"heartbeat_at"`
	ObservedAt       time.Time         `json:"observed_at"`
	RemainingSeconds float64           `json:"remaining_seconds"`
	Metadata         map[string]string `json:"metadata,omitempty"`
	Session          *sessionJSON      `json:"session,omitempty"`
}

type sessionJSON struct {
	PID             int    `json:"pid"`
	ClientAddr      string `json:"client_addr,omitempty"`
	ApplicationName string `json:"application_name,omitempty"`
}

func asJSON(i pglease.Info) leaseJSON {
	l := leaseJSON{
		Name: i.Name, Owner: i.Owner, Token: i.Token, Held: !i.Expired(), Released: released(i), Mode: i.Mode, AcquiredAt: i.AcquiredAt,
		ExpiresAt: i.ExpiresAt, ObservedAt: i.ObservedAt, RemainingSeconds: i.Remaining().Seconds(), Metadata: i.Metadata,
	}
	if !l.Released {
		l.HeartbeatAt = &i.HeartbeatAt
	}
	if s := i.Session; s != nil {
		l.Session = &sessionJSON{s.PID, s.ClientAddr, s.ApplicationName}
	}
	return l
}

// released reports whether the holder has given the lease up. The row says so by a heartbeat that is not before its expiry.
func released(i pglease.Info) bool { return !i.HeartbeatAt.Before(i.ExpiresAt) }

func writeJSON(w io.Writer, v any, indent bool) error {
	e := json.NewEncoder(w)
	if indent {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// writeTable writes leases as people read them.
func writeTable(w io.Writer, infos []pglease.Info) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tOWNER\tHELD FOR\tEXPIRES IN\tLAST BEAT\tMODE\tTOKEN")
	for _, i := range infos {
		heldFor, expires, beat := "-", "released", "-"
		if !i.Expired() {
			heldFor = short(i.ObservedAt.Sub(i.AcquiredAt))
			expires = short(i.Remaining())
			beat = short(i.ObservedAt.Sub(i.HeartbeatAt)) + " ago"
			if released(i) {
				beat = "released, kept"
			}
		} else if !released(i) {
			expires = "expired"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\n", printable(i.Name), printable(i.Owner), heldFor, expires, beat, i.Mode, i.Token)
	}
	return t.Flush()
}

// describe writes all there is to know of one lease.
func describe(w io.Writer, i pglease.Info) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	field := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	field("name", "%s", i.Name)
	switch {
	case !i.Expired() && released(i):
		field("state", "released, and kept for another %s (minimum hold)", short(i.Remaining()))
	case !i.Expired():
		field("state", "held, for another %s unless it is renewed", short(i.Remaining()))
	case !released(i):
		field("state", "free: expired %s ago", short(i.ObservedAt.Sub(i.ExpiresAt)))
	default:
		field("state", "free: released %s ago", short(i.ObservedAt.Sub(i.ExpiresAt)))
	}
	field("owner", "%s", i.Owner)
	field("token", "%d", i.Token)
	field("mode", "%s", i.Mode)
	field("acquired", "%s", i.AcquiredAt.Format(time.RFC3339Nano))
	field("expires", "%s", i.ExpiresAt.Format(time.RFC3339Nano))
	switch {
	case !released(i):
		field("last beat", "%s (%s ago)", i.HeartbeatAt.Format(time.RFC3339Nano), short(max(0, i.ObservedAt.Sub(i.HeartbeatAt))))
	case !i.Expired():
		field("last beat", "released, kept until %s", i.ExpiresAt.Format(time.RFC3339Nano))
	default:
		field("last beat", "released")
	}
	field("server clock", "%s", i.ObservedAt.Format(time.RFC3339Nano))
	if s := i.Session; s != nil {
		field("session", "%s", strings.TrimSpace(fmt.Sprintf("pid %d %s %s", s.PID, s.ClientAddr, s.ApplicationName)))
	}
	keys := make([]string, 0, len(i.Metadata))
	for k := range i.Metadata {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		field(printable(k), "%s", i.Metadata[k])
	}
	return t.Flush()
}

// short rounds a duration to what matters of it.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// count says how many there are of a thing.
func count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
