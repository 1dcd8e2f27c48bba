package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// startEmbedded runs its library's Start aside, because that knows no ctx and downloads.
func startEmbedded(ctx context.Context, c *config) (*Server, error) {
	if c.tls {
		return nil, errors.New("embedded-postgres isn't given a certificate")
	}
	if os.Geteuid() == 0 {
		return nil, errors.New("embedded-postgres can't drop root, and PostgreSQL refuses to run as root")
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pgserver-")
	if err != nil {
		return nil, err
	}
	password := rand.Text()
	parameters := map[string]string{"max_connections": "200"}
	for _, s := range c.settings {
		parameters[s.name] = s.value
	}
	server := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(embeddedpostgres.V17).
		Port(uint32(port)).
		Username(superuser).
		Password(password).
		Database("postgres").
		RuntimePath(filepath.Join(dir, "run")).
		DataPath(filepath.Join(dir, "data")).
		StartParameters(parameters).
		StartTimeout(startLimit).
		Logger(io.Discard))
	started := make(chan error, 1)
	go func() { started <- server.Start() }()
	select {
	case err = <-started:
	case <-ctx.Done():
		// The start goes on, and is undone when it is through.
		go func() {
			if <-started == nil {
				_ = server.Stop()
			}
			_ = os.RemoveAll(dir)
		}()
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Server{
		kind: Embedded,
		at: target{
			host: "localhost", port: strconv.Itoa(port), user: superuser, password: password, database: "postgres",
			params: url.Values{"sslmode": {"disable"}},
		},
		origin: "embedded-postgres",
		remove: func() error { return errors.Join(server.Stop(), os.RemoveAll(dir)) },
	}, nil
}
