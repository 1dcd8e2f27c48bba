package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// What the facts mean. No I/O in here.

func (f *facts) setting(name string) string { return f.settings[name] }

// milliseconds reads a setting whose unit is that; 0 if it is off, or the server does not have it.
func (f *facts) milliseconds(name string) time.Duration {
	n, _ := strconv.Atoi(f.settings[name])
	return time.Duration(n) * time.Millisecond
}

func (f *facts) judgeServer() []finding {
	findings := []finding{f.judgeVersion(), f.judgePrimary(), f.judgeIsolation()}
	findings = append(findings, f.judgeTimeouts()...)
	findings = append(findings, f.judgeKeepalives())
	findings = append(findings, f.judgeDurability()...)
	return append(findings, f.judgeClock())
}

func (f *facts) judgeVersion() finding {
	switch major := f.versionNum / 10000; {
	case major < 13:
		return finding{"server", severityError, "PostgreSQL " + f.version + " is too old", "use 13 or later"}
	case major > 18:
		return finding{"server", severityNotice, "PostgreSQL " + f.version + " is newer than what this version was tested with", "look for a newer pglease"}
	}
	return finding{Check: "server", Severity: severityOK, Finding: "PostgreSQL " + f.version}
}

func (f *facts) judgePrimary() finding {
	switch {
	case f.inRecovery:
		return finding{"primary", severityError, "the server is a standby: it can grant nothing",
			"connect to the primary; with several hosts in the DSN, add target_session_attrs=read-write"}
	case f.setting("default_transaction_read_only") == "on":
		return finding{"primary", severityError, "transactions are read only (default_transaction_read_only)",
			"ALTER ROLE " + f.role + " RESET default_transaction_read_only, or the database's, or connect to the primary"}
	}
	return finding{Check: "primary", Severity: severityOK, Finding: "the server is a primary and can be written to"}
}

func (f *facts) judgeIsolation() finding {
	if level := f.setting("default_transaction_isolation"); level != "read committed" {
		return finding{"isolation", severityNotice, "default_transaction_isolation is " + level + ": leases that many want are tried again and again (40001)",
			"ALTER ROLE " + f.role + " SET default_transaction_isolation = 'read committed'"}
	}
	return finding{Check: "isolation", Severity: severityOK, Finding: "read committed"}
}

func (f *facts) judgeTimeouts() (findings []finding) {
	for _, t := range []struct {
		name   string
		enough time.Duration
		what   string
	}{
		{"statement_timeout", 5 * time.Second, "heartbeats on a slow day are cut off, and leases lost"},
		{"transaction_timeout", 5 * time.Second, "heartbeats on a slow day are cut off, and leases lost"},
		{"idle_session_timeout", time.Minute, "a session that holds leases is ended between two heartbeats, and a new one made each time (hybrid sets its own)"},
	} {
		if d := f.milliseconds(t.name); d > 0 && d < t.enough {
			findings = append(findings, finding{"timeouts", severityWarning, fmt.Sprintf("%s is %v: %s", t.name, d, t.what),
				fmt.Sprintf("ALTER ROLE %s SET %s = '%v'", f.role, t.name, t.enough)})
		}
	}
	if d := f.milliseconds("lock_timeout"); d > 0 && d < 100*time.Millisecond {
		findings = append(findings, finding{"timeouts", severityNotice, fmt.Sprintf("lock_timeout is %v: a first acquire beside a Python worker may fail", d),
			fmt.Sprintf("ALTER ROLE %s SET lock_timeout = '1s'", f.role)})
	}
	if len(findings) == 0 {
		findings = []finding{{Check: "timeouts", Severity: severityOK, Finding: "none that is too short for a heartbeat"}}
	}
	return findings
}

func (f *facts) judgeKeepalives() finding {
	seconds, _ := strconv.Atoi(f.setting("tcp_keepalives_idle"))
	switch user := f.milliseconds("tcp_user_timeout"); {
	case f.overSocket:
		return finding{Check: "keepalives", Severity: severityOK, Finding: "not needed over a Unix socket"}
	case user > 0 && user < 10*time.Second:
		return finding{"keepalives", severityWarning, fmt.Sprintf("tcp_user_timeout is %v: a short hiccup of the network ends sessions", user),
			"ALTER SYSTEM SET tcp_user_timeout = '30s'"}
	case seconds <= 0 || seconds > 600:
		idle := "hours"
		if seconds > 0 {
			idle = short(time.Duration(seconds) * time.Second)
		}
		return finding{"keepalives", severityNotice,
			fmt.Sprintf("a machine that vanishes keeps its sessions, and what they lock, for %s (tcp_keepalives_idle); hybrid sets its own", idle),
			"ALTER SYSTEM SET tcp_keepalives_idle = 60, and tcp_keepalives_interval = 10"}
	}
	return finding{Check: "keepalives", Severity: severityOK, Finding: fmt.Sprintf("the server looks after silent clients after %d s", seconds)}
}

func (f *facts) judgeDurability() (findings []finding) {
	add := func(s severity, what, remedy string) {
		findings = append(findings, finding{"durability", s, what, remedy})
	}
	commit, names := f.setting("synchronous_commit"), f.setting("synchronous_standby_names")
	if f.setting("fsync") == "off" {
		add(severityError, "fsync is off: a crash of the machine may forget leases, or ruin the database", "ALTER SYSTEM SET fsync = on")
	}
	if f.setting("full_page_writes") == "off" {
		add(severityWarning, "full_page_writes is off: a crash of the machine may ruin the table", "ALTER SYSTEM SET full_page_writes = on")
	}
	switch {
	case commit == "off":
		add(severityError, "synchronous_commit is off: a crash forgets the newest leases, and two may hold one", "ALTER ROLE "+f.role+" SET synchronous_commit = on")
	case names != "" && (commit == "local" || commit == "remote_write"):
		add(severityWarning, "synchronous_commit is "+commit+": a failover may forget the newest leases", "ALTER ROLE "+f.role+" SET synchronous_commit = on")
	}
	if names == "" && f.standbys > 0 {
		add(severityWarning, fmt.Sprintf("%d standbys, none of them synchronous: a failover may forget the newest leases", f.standbys),
			"set synchronous_standby_names, or do not promote a standby before the longest TTL is over")
	}
	if len(findings) == 0 {
		findings = []finding{{Check: "durability", Severity: severityOK, Finding: "what is granted stays granted over a crash"}}
	}
	return findings
}

func (f *facts) judgeClock() finding {
	off, which := f.ahead, "ahead of"
	if off < 0 {
		off, which = -off, "behind"
	}
	if off-f.unsure > time.Second {
		return finding{"clock", severityWarning, fmt.Sprintf("the server's clock is %s %s this machine's; Go workers do not mind, Python workers do", short(off), which),
			"set up NTP on both"}
	}
	return finding{Check: "clock", Severity: severityOK, Finding: fmt.Sprintf("within %v of this machine's", (off + f.unsure).Round(time.Millisecond))}
}

func (f *facts) judgePooler() finding {
	switch {
	case f.pooling != "":
		return finding{"pooler", severityWarning, "a pooler in transaction mode is in between (" + f.pooling + "): no hybrid leases, and no prepared statements",
			"with pgx, default_query_exec_mode=exec in the DSN, with lib/pq binary_parameters=yes; for hybrid a direct connection"}
	case f.pooler != "":
		return finding{"pooler", severityNotice, "a pooler in session mode is in between (" + f.pooler + ")",
			"nothing needs to be done; mind its own limits of sessions and their lifetime (server_lifetime)"}
	}
	return finding{Check: "pooler", Severity: severityOK, Finding: "none in between"}
}

func (f *facts) judgeTable() (findings []finding) {
	add := func(check string, s severity, what, remedy string) {
		findings = append(findings, finding{check, s, what, remedy})
	}
	table := f.table.schema + ".pglease_leases"
	var missing []string
	for _, r := range []struct {
		name string
		has  bool
	}{{"SELECT", f.rights.sel}, {"INSERT", f.rights.insert}, {"UPDATE", f.rights.update}} {
		if !r.has {
			missing = append(missing, r.name)
		}
	}
	switch {
	case len(missing) > 0:
		add("rights", severityError, "the role "+f.role+" lacks "+strings.Join(missing, ", ")+" on the lease table",
			"as its owner: GRANT "+strings.Join(missing, ", ")+" ON "+table+" TO "+f.role)
	case !f.rights.del:
		add("rights", severityWarning, "the role "+f.role+" lacks DELETE on the lease table: old rows stay for ever", "as its owner: GRANT DELETE ON "+table+" TO "+f.role)
	case !f.rights.signal:
		add("rights", severityNotice, "the role "+f.role+" cannot end sessions of other roles: a hybrid holder of another role that hangs is waited for",
			"use one role for all workers, or GRANT pg_signal_backend TO "+f.role)
	default:
		add("rights", severityOK, "the role "+f.role+" has all it needs", "")
	}
	if len(f.indexes) > 0 {
		add("indexes", severityWarning, "each heartbeat has to change an index ("+strings.Join(f.indexes, ", ")+"): slow, and the table grows",
			"DROP INDEX CONCURRENTLY "+strings.Join(f.indexes, ", "))
	} else {
		add("indexes", severityOK, "none that a heartbeat has to change", "")
	}
	if f.others != "" {
		add("lease table", severityWarning, "there are lease tables in other schemas too ("+f.others+"): workers with another search_path share nothing with these",
			"keep one, and the same search_path for all; in hybrid never one name in two schemas")
	}
	if f.rights.sel {
		findings = append(findings, f.judgeBloat()...)
	}
	return findings
}

func (f *facts) judgeBloat() (findings []finding) {
	table := f.table.schema + ".pglease_leases"
	const row = 1000 // bytes, generously, with the half of each page that is left free
	if limit := max(1<<20, 10*row*f.rows); f.bytes > limit {
		findings = append(findings, finding{"bloat", severityWarning, fmt.Sprintf("the lease table has %s and %d MB", count(f.rows, "row"), f.bytes>>20),
			"VACUUM FULL " + table + ", which takes moments; then look for what keeps old rows alive"})
	}
	if strings.Contains(f.options, "autovacuum_enabled=false") || strings.Contains(f.options, "autovacuum_enabled=off") {
		findings = append(findings, finding{"bloat", severityWarning, "autovacuum is switched off for the lease table", "ALTER TABLE " + table + " RESET (autovacuum_enabled)"})
	}
	if !strings.Contains(f.options, "fillfactor=") {
		findings = append(findings, finding{"bloat", severityNotice, "the lease table has no fillfactor: heartbeats leave dead rows behind", "ALTER TABLE " + table + " SET (fillfactor = 50)"})
	}
	if len(findings) == 0 {
		findings = []finding{{Check: "bloat", Severity: severityOK, Finding: fmt.Sprintf("%s in %d kB", count(f.rows, "row"), f.bytes>>10)}}
	}
	return findings
}

func (f *facts) judgeSessions() (findings []finding) {
	if f.oldestPID != 0 && f.oldest > f.transactionAge {
		findings = append(findings, finding{"transactions", severityWarning,
			fmt.Sprintf("a transaction has been open for %s (pid %d): until it ends no old row of any table is removed", short(f.oldest), f.oldestPID),
			fmt.Sprintf("find out who it is (pg_stat_activity), and end it: SELECT pg_terminate_backend(%d)", f.oldestPID)})
	} else {
		findings = append(findings, finding{Check: "transactions", Severity: severityOK, Finding: "none open for longer than " + short(f.transactionAge)})
	}
	full := false
	for _, l := range []struct {
		of            string
		used, maximum int
		remedy        string
	}{
		{"the server", f.used, f.maximum, "raise max_connections, or put a pooler in between"},
		{"this database", f.usedDatabase, f.maximumDatabase, "ALTER DATABASE ... CONNECTION LIMIT"},
		{"the role " + f.role, f.usedRole, f.maximumRole, "ALTER ROLE " + f.role + " CONNECTION LIMIT"},
	} {
		if l.maximum < 0 || l.used*5 < l.maximum*4 {
			continue
		}
		full = true
		findings = append(findings, finding{"sessions", severityWarning,
			fmt.Sprintf("%d of the %d sessions of %s are in use: who gets none cannot renew its leases", l.used, l.maximum, l.of), l.remedy})
	}
	if !full {
		findings = append(findings, finding{Check: "sessions", Severity: severityOK, Finding: fmt.Sprintf("%d of %d are in use", f.used, f.maximum)})
	}
	return findings
}
