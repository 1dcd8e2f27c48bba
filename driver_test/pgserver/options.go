package pgserver

import (
	"io"
	"os"
)

// An Option changes what [Start], [Server.Standby] or [StartBouncer] start. Each says which of them it is for; the
// others ignore it.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

type setting struct{ name, value string }

type config struct {
	log         io.Writer
	kinds       []Kind
	settings    []setting
	tls         bool
	bin         string
	synchronous bool
}

func newConfig(opts []Option) *config {
	c := &config{log: os.Stderr, kinds: []Kind{DSN, Docker, Local, Embedded}}
	if os.Getenv("PGLEASE_TEST_BIN") != "" {
		c.kinds = []Kind{DSN, Local} // in the place of what was asked for, another version would go unnoticed
	}
	for _, o := range opts {
		o.apply(c)
	}
	if c.bin != "" {
		c.kinds = []Kind{Local}
	}
	return c
}

// WithLog makes w the writer of the one line that says what was started and why nothing earlier was; the default is
// standard error. For all three.
func WithLog(w io.Writer) Option {
	return optionFunc(func(c *config) { c.log = w })
}

// WithKinds restricts [Start] to kinds, tried in the order given; the default is DSN, Docker, Local, Embedded, or DSN and
// Local where PGLEASE_TEST_BIN is set. Tests that crash or freeze the server ask for Local only.
func WithKinds(kinds ...Kind) Option {
	return optionFunc(func(c *config) { c.kinds = kinds })
}

// WithSetting sets one configuration parameter: for [Start] and [Server.Standby] of PostgreSQL (a server reached
// through PGLEASE_TEST_DSN is then not taken, because its settings are not ours to change), for [StartBouncer] of
// PgBouncer's section [pgbouncer]. The last value for a name counts.
func WithSetting(name, value string) Option {
	return optionFunc(func(c *config) { c.settings = append(c.settings, setting{name, value}) })
}

// WithTLS makes [Start] give the server a certificate for localhost, 127.0.0.1 and ::1 from a CA of its own, valid for
// a day. Only Local can do it, so no other kind is taken. Connections without TLS stay possible; [TLS] makes a DSN
// that checks the certificate.
func WithTLS() Option {
	return optionFunc(func(c *config) { c.tls = true })
}

// WithBin makes [Start] take kind Local with the binaries in dir, a directory that contains initdb and postgres, and
// nothing else. See [Binaries] for what the machine has.
func WithBin(dir string) Option {
	return optionFunc(func(c *config) { c.bin = dir })
}

// Synchronous makes [Server.Standby] name the standby in the primary's synchronous_standby_names, so that commits wait
// for it. It replaces what is set there; Stop of the standby resets it if the primary still answers.
func Synchronous() Option {
	return optionFunc(func(c *config) { c.synchronous = true })
}
