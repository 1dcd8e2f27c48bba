package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pglease/pglease-go/pglease"
)

const (
	lease  = "demo/move-coins" // the name that the workers share
	ttl    = 3 * time.Second   // the default, 30 s, is for people with more time
	amount = 10
	coins  = 3000

	thinking = 100 * time.Millisecond // between reading and writing
	working  = 600 * time.Millisecond // between the two writes
)

// The job stands for one that cannot be a single transaction, because its two halves concern two systems. So it keeps a
// journal: whoever comes next sees what its predecessor wanted, and can finish it.
const tables = `
DROP TABLE IF EXISTS accounts, moves, writes;
CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL);
INSERT INTO accounts VALUES (1, 1000), (2, 1000), (3, 1000);
CREATE TABLE moves (
    id         bigserial PRIMARY KEY,
    worker     text NOT NULL,
    payer      int NOT NULL,
    payee      int NOT NULL,
    amount     int NOT NULL,
    payer_then int NOT NULL, -- what the accounts are to contain afterwards: writing that twice does no harm
    payee_then int NOT NULL,
    done       bool NOT NULL DEFAULT false
);
CREATE TABLE writes (id bigserial PRIMARY KEY, worker text NOT NULL, token bigint NOT NULL);`

const setBalance = `UPDATE accounts SET balance = $2 WHERE id = $1`

// A job is one worker's.
type job struct {
	db     *sql.DB
	worker string
	number int // of the worker, from 1: it moves coins from the account of that number to the next one
	say    func(kind, format string, args ...any)
}

// A statement is part of a write.
type statement struct {
	text string
	args []any
}

// run does the job once. l is nil where the demo shows what happens without a lease.
//
// It does not look at the context of the lease, which ends when the lease is lost; a good job would. So nothing protects
// the rows here but CheckTx.
func (j *job) run(ctx context.Context, l *pglease.Lease) error {
	if l != nil {
		if err := j.finish(ctx, l); err != nil {
			return err
		}
	}
	payer, payee := j.number, j.number%3+1
	payerThen, err := j.balance(ctx, payer)
	if err != nil {
		return err
	}
	payeeThen, err := j.balance(ctx, payee)
	if err != nil {
		return err
	}
	payerThen, payeeThen = payerThen-amount, payeeThen+amount
	time.Sleep(thinking)

	var move int64
	err = j.write(ctx, l, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `INSERT INTO moves (worker, payer, payee, amount, payer_then, payee_then)
			VALUES ($1, $2, $3, $4, $5, $6) RETURNING id`, j.worker, payer, payee, amount, payerThen, payeeThen).Scan(&move)
	})
	if err != nil {
		return err
	}
	if err := j.write(ctx, l, statements(statement{setBalance, []any{payer, payerThen}})); err != nil {
		return err
	}
	j.say("half", "took %d from account %d", amount, payer)
	time.Sleep(working)
	if err := j.write(ctx, l, statements(
		statement{setBalance, []any{payee, payeeThen}},
		statement{`UPDATE moves SET done = true WHERE id = $1`, []any{move}},
	)); err != nil {
		return err
	}
	j.say("done", "gave %d to account %d: done", amount, payee)
	return nil
}

// finish does what a predecessor has left half done.
func (j *job) finish(ctx context.Context, l *pglease.Lease) error {
	var move int64
	var worker string
	var payer, payee, payerThen, payeeThen int
	err := j.db.QueryRowContext(ctx, `SELECT id, worker, payer, payee, payer_then, payee_then FROM moves WHERE NOT done`).
		Scan(&move, &worker, &payer, &payee, &payerThen, &payeeThen)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	j.say("finish", "finishes first what %s left half done: %d coins for account %d", worker, amount, payee)
	return j.write(ctx, l, statements(
		statement{setBalance, []any{payer, payerThen}},
		statement{setBalance, []any{payee, payeeThen}},
		statement{`UPDATE moves SET done = true WHERE id = $1`, []any{move}},
	))
}

func (j *job) balance(ctx context.Context, account int) (balance int, err error) {
	err = j.db.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE id = $1`, account).Scan(&balance)
	return balance, err
}

// write runs f in a transaction that only the current holder of the lease can commit.
func (j *job) write(ctx context.Context, l *pglease.Lease, f func(*sql.Tx) error) error {
	tx, err := j.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	token := int64(0)
	if l != nil {
		if err := l.CheckTx(ctx, tx); err != nil {
			return err
		}
		token = l.Token()
	}
	if err := f(tx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO writes (worker, token) VALUES ($1, $2)`, j.worker, token); err != nil {
		return err
	}
	return tx.Commit()
}

func statements(all ...statement) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		for _, s := range all {
			if _, err := tx.Exec(s.text, s.args...); err != nil {
				return err
			}
		}
		return nil
	}
}

// total is what the accounts hold together.
func total(ctx context.Context, db *sql.DB) (sum int, err error) {
	err = db.QueryRowContext(ctx, `SELECT sum(balance) FROM accounts`).Scan(&sum)
	return sum, err
}

// audit counts the writes, and the terms and workers that made them. What is wrong with the rows is an error.
func audit(ctx context.Context, db *sql.DB) (writes, terms, workers int, err error) {
	for _, rule := range []struct{ text, query string }{
		{"the accounts do not hold 3000 coins", fmt.Sprintf(`SELECT count(*) FROM (SELECT sum(balance) AS s FROM accounts) a WHERE s <> %d`, coins)},
		{"a move is half done", `SELECT count(*) FROM moves WHERE NOT done`},
		{"a balance is not what the moves make it", `SELECT count(*) FROM accounts a WHERE balance <> 1000
			+ (SELECT coalesce(sum(amount), 0) FROM moves WHERE payee = a.id) - (SELECT coalesce(sum(amount), 0) FROM moves WHERE payer = a.id)`},
		{"a write of an older term came after one of a newer term", `SELECT count(*) FROM
			(SELECT token, lag(token) OVER (ORDER BY id) AS before FROM writes) w WHERE token < before`},
	} {
		var violations int
		if err := db.QueryRowContext(ctx, rule.query).Scan(&violations); err != nil {
			return 0, 0, 0, err
		}
		if violations > 0 {
			return 0, 0, 0, fmt.Errorf("%s (%d)", rule.text, violations)
		}
	}
	err = db.QueryRowContext(ctx, `SELECT count(*), count(DISTINCT token), count(DISTINCT worker) FROM writes`).Scan(&writes, &terms, &workers)
	return writes, terms, workers, err
}
