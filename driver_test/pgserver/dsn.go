package pgserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"strings"
)

// target is what a DSN is made of.
type target struct {
	host, port     string
	user, password string
	database       string
	params         url.Values
	socket         string // directory of the Unix socket; "" if there is none
	ca             string // file with the CA's certificate; "" without TLS
}

// A DSNOption changes one part of a DSN.
type DSNOption interface{ apply(*target) }

type dsnOptionFunc func(*target)

func (f dsnOptionFunc) apply(t *target) { f(t) }

// Database names the database; the default is postgres, or what PGLEASE_TEST_DSN names.
func Database(name string) DSNOption {
	return dsnOptionFunc(func(t *target) { t.database = name })
}

// User replaces the superuser of the DSN by another role.
func User(name, password string) DSNOption {
	return dsnOptionFunc(func(t *target) { t.user, t.password = name, password })
}

// Param sets a parameter of the DSN: a word of the driver's, or a server setting such as search_path or options.
func Param(key, value string) DSNOption {
	return dsnOptionFunc(func(t *target) { t.params.Set(key, value) })
}

// Unix makes the DSN go through the server's Unix socket, which only Local has, and not on Windows. A DSN of another
// server does not connect.
func Unix() DSNOption {
	return dsnOptionFunc(func(t *target) {
		dir := t.socket
		if dir == "" {
			// An absolute path is what makes drivers use a socket; the error that names this one explains itself.
			dir = "/pgserver-has-no-unix-socket-here"
		}
		t.params.Set("host", dir)
		t.params.Set("port", t.port)
		t.host = ""
	})
}

// TLS makes the DSN encrypt and check the certificate against the server's own CA (sslmode=verify-full). A DSN of a
// server that was started without [WithTLS] does not connect.
func TLS() DSNOption {
	return dsnOptionFunc(func(t *target) {
		ca := t.ca
		if ca == "" {
			ca = "/pgserver-has-no-tls-here"
		}
		t.params.Set("sslmode", "verify-full")
		t.params.Set("sslrootcert", ca)
	})
}

// DSN returns a connection string in URL form, which pgx, lib/pq and libpq all read, for the superuser and the database
// postgres unless opts say otherwise. It contains the password. sslmode is disable, or what PGLEASE_TEST_DSN says.
func (s *Server) DSN(opts ...DSNOption) string { return s.at.dsn(opts) }

func (t target) dsn(opts []DSNOption) string {
	params := maps.Clone(t.params)
	t.params = url.Values{}
	maps.Copy(t.params, params)
	for _, o := range opts {
		o.apply(&t)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(t.user, t.password), Path: "/" + t.database}
	if t.host != "" {
		u.Host = net.JoinHostPort(t.host, t.port)
	}
	// libpq reads a plus sign in a URL as a plus sign.
	u.RawQuery = strings.ReplaceAll(t.params.Encode(), "+", "%20")
	return u.String()
}

func startDSN(ctx context.Context, c *config) (*Server, error) {
	dsn := os.Getenv("PGLEASE_TEST_DSN")
	switch {
	case dsn == "":
		return nil, errors.New("PGLEASE_TEST_DSN is not set")
	case len(c.settings) > 0:
		return nil, errors.New("the settings of the server that PGLEASE_TEST_DSN names can't be changed")
	case c.tls:
		return nil, errors.New("the server that PGLEASE_TEST_DSN names can't be given a certificate")
	}
	at, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	s := &Server{kind: DSN, at: at, origin: "named by PGLEASE_TEST_DSN"}
	s.remove = s.dropAll
	attempt, cancel := context.WithTimeout(ctx, dsnLimit)
	defer cancel()
	if err := execute(attempt, s.DSN(), "SELECT 1"); err != nil {
		return nil, fmt.Errorf("PGLEASE_TEST_DSN: %w", err)
	}
	return s, nil
}

// parseDSN does not put the text or url.Parse's error into its own: both would show the password.
func parseDSN(dsn string) (target, error) {
	u, err := url.Parse(dsn)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return target{}, errors.New("PGLEASE_TEST_DSN is not a URL that begins with postgres:// or postgresql://")
	}
	password, _ := u.User.Password()
	t := target{
		host: u.Hostname(), port: u.Port(),
		user: u.User.Username(), password: password,
		database: strings.TrimPrefix(u.Path, "/"),
		params:   u.Query(),
	}
	if t.port == "" {
		t.port = "5432"
	}
	if p := t.params.Get("port"); p != "" {
		t.port = p
	}
	if t.database == "" {
		t.database = "postgres"
	}
	if host := t.params.Get("host"); strings.HasPrefix(host, "/") {
		t.socket = host
	}
	return t, nil
}
