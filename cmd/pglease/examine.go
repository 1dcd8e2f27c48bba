package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
)

// facts are what the server says of itself. What they mean is told by judge.
type facts struct {
	versionNum int
	version    string
	inRecovery bool
	overSocket bool
	role       string
	ahead      time.Duration // of the server's clock before ours
	unsure     time.Duration // by how much ahead may be wrong
	settings   map[string]string

	pooler  string // "", or what shows that one is in between
	pooling string // "", or what shows that it is not in session mode

	table   leaseTable
	rights  struct{ sel, insert, update, del, signal bool }
	indexes []string
	others  string
	bytes   int64
	rows    int64
	options string

	oldest                                                              time.Duration
	oldestPID                                                           int
	transactionAge                                                      time.Duration // the limit
	used, maximum, usedDatabase, maximumDatabase, usedRole, maximumRole int
	standbys                                                            int
}

// examine asks the server. If it cannot be reached, there is one finding, and the error; if a question fails, what it would
// have told is a finding, and the rest is looked at.
func examine(ctx context.Context, d *database, age time.Duration) ([]finding, error) {
	f := &facts{transactionAge: age}
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return []finding{{"connection", severityError, err.Error(), "check the address, the name, the password, and that the server runs"}}, err
	}
	defer conn.Close()
	var findings []finding
	ask := func(check string, question func() error) bool {
		err := question()
		if err != nil {
			findings = append(findings, finding{check, severityError, "the server did not answer: " + err.Error(), "look into the server's log"})
		}
		return err == nil
	}
	if ask("server", func() error { return f.askServer(ctx, conn) }) {
		findings = append(findings, f.judgeServer()...)
	}
	if ask("pooler", func() error { return f.askPooler(ctx, d.db, conn) }) {
		findings = append(findings, f.judgePooler())
	}
	if ask("lease table", func() (err error) { f.table, err = readTable(ctx, d.db); return err }) {
		findings = append(findings, f.table.fit())
		if f.table.schema != "" && ask("lease table", func() error { return f.askTable(ctx, conn) }) {
			findings = append(findings, f.judgeTable()...)
		}
	}
	if ask("sessions", func() error { return f.askSessions(ctx, conn) }) {
		findings = append(findings, f.judgeSessions()...)
	}
	return findings, nil
}

func (f *facts) askServer(ctx context.Context, conn *sql.Conn) error {
	var clock time.Time
	if err := conn.PingContext(ctx); err != nil { // so that the time of the next statement is its own
		return err
	}
	sent := time.Now()
	if err := conn.QueryRowContext(ctx, statement("Server")).Scan(&f.versionNum, &f.version, &f.inRecovery, &f.overSocket, &f.role, &clock); err != nil {
		return err
	}
	f.unsure = time.Since(sent) / 2
	f.ahead = clock.Sub(sent.Add(f.unsure))
	if err := conn.QueryRowContext(ctx, statement("Standbys")).Scan(&f.standbys); err != nil {
		return err
	}
	rows, err := conn.QueryContext(ctx, statement("Settings"))
	if err != nil {
		return err
	}
	defer rows.Close()
	f.settings = make(map[string]string)
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		f.settings[name] = value
	}
	return rows.Err()
}

// askPooler finds out whether what this end takes for a session is one. A pooler announces a number of its own for it; and in
// transaction mode, two connections meet in one session, or one connection changes it (S1).
func (f *facts) askPooler(ctx context.Context, db *sql.DB, first *sql.Conn) error {
	second, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer second.Close()
	type session struct {
		conn *sql.Conn
		pid  int
		mark string
	}
	both := []*session{{conn: first}, {conn: second}}
	const looks = 4
	for look := range looks {
		for _, s := range both {
			mark := strconv.FormatUint(rand.Uint64(), 36)
			if look == looks-1 {
				mark = ""
			}
			var pid int
			var found, set string
			if err := s.conn.QueryRowContext(ctx, statement("Mark"), mark).Scan(&pid, &found, &set); err != nil {
				return err
			}
			if look > 0 && (pid != s.pid || found != s.mark) {
				f.pooling = "a connection changed its session between two statements"
			}
			s.pid, s.mark = pid, mark
		}
		if both[0].pid == both[1].pid {
			f.pooling = "two connections share one session"
		}
	}
	return first.Raw(func(driverConn any) error {
		c, ok := driverConn.(*stdlib.Conn)
		if !ok {
			return errors.New("the driver is not pgx")
		}
		if announced := int(c.Conn().PgConn().PID()); announced != both[0].pid {
			f.pooler = fmt.Sprintf("the connection was announced as session %d and is %d", announced, both[0].pid)
		}
		return nil
	})
}

func (f *facts) askTable(ctx context.Context, conn *sql.Conn) error {
	r := &f.rights
	if err := conn.QueryRowContext(ctx, statement("Rights")).Scan(&r.sel, &r.insert, &r.update, &r.del, &r.signal); err != nil {
		return err
	}
	rows, err := conn.QueryContext(ctx, statement("Indexes"))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		f.indexes = append(f.indexes, name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if err := conn.QueryRowContext(ctx, statement("Others")).Scan(&f.others); err != nil {
		return err
	}
	if !r.sel {
		return nil // the finding about rights says it
	}
	return conn.QueryRowContext(ctx, statement("Storage")).Scan(&f.bytes, &f.rows, &f.options)
}

func (f *facts) askSessions(ctx context.Context, conn *sql.Conn) error {
	var seconds float64
	if err := conn.QueryRowContext(ctx, statement("OldestTransaction")).Scan(&seconds, &f.oldestPID); err != nil {
		return err
	}
	f.oldest = time.Duration(seconds * float64(time.Second))
	return conn.QueryRowContext(ctx, statement("Sessions")).Scan(&f.used, &f.maximum, &f.usedDatabase, &f.maximumDatabase,
		&f.usedRole, &f.maximumRole)
}
