package main

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pglease/pglease-go/pglease"
)

// secretVariables may hold a password. They are not passed on to the command that is run, unless --keep-env says so.
var secretVariables = []string{"PGLEASE_DSN", "DATABASE_URL", "PGPASSWORD", "PGSSLPASSWORD"}

// A database is where the leases are.
type database struct {
	config  *pgx.ConnConfig
	db      *sql.DB
	secrets []string // to be kept out of every text
	hide    *strings.Replacer
}

// open finds the database. It does no I/O over the network.
func (a *app) open() (*database, error) {
	if a.database != nil {
		return a.database, nil
	}
	from, dsn := "--dsn", a.dsn
	for _, name := range []string{"PGLEASE_DSN", "DATABASE_URL"} {
		if dsn == "" {
			from, dsn = name, os.Getenv(name)
		}
	}
	if dsn == "" {
		from = fromVariables
	}
	d, err := parse(from, dsn)
	if err != nil {
		return nil, err
	}
	a.database = d
	if a.dsn != "" && d.config.Password != "" && d.inText(a.dsn) {
		a.logger().Warn("the password in --dsn can be seen in the list of processes: put it into PGLEASE_DSN, PGPASSWORD or ~/.pgpass")
	}
	d.db = stdlib.OpenDB(*d.config)
	d.db.SetMaxOpenConns(4) // the library keeps one of three or more for heartbeats
	d.db.SetMaxIdleConns(2)
	return d, nil
}

// parse reads a connection string as pgx does, but says what is wrong in words of its own: pgx quotes the string, and hides the
// password only where it recognises it (X1).
func parse(from, dsn string) (*database, error) {
	if scheme, rest, ok := strings.Cut(dsn, "://"); ok && !strings.Contains(scheme, "=") {
		if scheme != "postgres" && scheme != "postgresql" {
			return nil, wrong(from, "the scheme is neither postgres nor postgresql")
		}
		authority := rest
		if end := strings.IndexAny(rest, "/?#"); end >= 0 {
			authority = rest[:end]
		}
		path, _, _ := strings.Cut(rest[len(authority):], "?")
		if at := strings.Count(authority, "@"); at > 1 || at == 0 && strings.Contains(path, "@") {
			return nil, usage("%s: %s", from, wantsEscape)
		}
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, parseProblem(from, dsn, err)
	}
	d := &database{config: config}
	secrets := []string{config.Password, os.Getenv("PGPASSWORD"), os.Getenv("PGSSLPASSWORD")}
	for _, s := range secrets {
		for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s), strings.ReplaceAll(s, "'", `\'`)} {
			if len([]rune(form)) >= 4 && !slices.Contains(d.secrets, form) {
				d.secrets = append(d.secrets, form)
			}
		}
	}
	var pairs []string
	for _, s := range d.secrets {
		pairs = append(pairs, s, "xxxxx")
	}
	d.hide = strings.NewReplacer(pairs...)
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "pglease"
	}
	if config.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		// A statement prepared is a statement lost behind a pooler in transaction mode, and we send too few to gain by it.
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 10 * time.Second
	}
	return d, nil
}

func (d *database) inText(dsn string) bool { return d.hide.Replace(dsn) != dsn }

// redact replaces the passwords that are known. What the library says is redacted already.
func (d *database) redact(text string) string {
	if d == nil {
		return text
	}
	return d.hide.Replace(text)
}

// client returns a client of the database, to be closed by close.
func (a *app) client(opts ...pglease.Option) (*pglease.Client, error) {
	d, err := a.open()
	if err != nil {
		return nil, err
	}
	opts = append(opts, pglease.WithSecrets(d.secrets...), pglease.WithSlog(a.logger()))
	c, err := pglease.New(d.db, opts...)
	if err != nil {
		return nil, usage("%s", strings.ReplaceAll(strings.TrimPrefix(err.Error(), "pglease: "), "\npglease:", ";"))
	}
	return c, nil
}

// closing bounds what is left to do when a command ends.
const closing = 5 * time.Second

// withClient runs f with a client, for commands that ask and go.
func (a *app) withClient(ctx context.Context, f func(context.Context, *pglease.Client) error) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	err = f(ctx, c)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	_ = c.Close(end)
	_ = a.database.db.Close()
	return failure(err)
}

// childEnv is the environment of the command that is run: ours, without what may hold a password unless keep is set, and with
// more, which replaces what had the same names.
func childEnv(keep bool, more ...string) []string {
	dropped := make(map[string]bool)
	for _, name := range secretVariables {
		dropped[name] = !keep
	}
	for _, pair := range more {
		name, _, _ := strings.Cut(pair, "=")
		dropped[name] = true
	}
	env := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return dropped[name]
	})
	return append(env, more...)
}
