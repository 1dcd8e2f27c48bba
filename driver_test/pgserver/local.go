package pgserver

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

const (
	superuser    = "pglease"
	loopback     = "127.0.0.1"
	portAttempts = 3
	// A socket's path is limited to 107 bytes on Linux and 103 on macOS, the socket's own name included.
	socketPathLimit = 100
)

// local is the part of a Server that runs here: its files and its postmaster.
type local struct {
	bin     string
	account account
	dir     string // holds all of the files below; 0755, so that clients of other users reach the socket
	data    string
	socket  string // "" on Windows
	flags   []string

	mu      sync.Mutex
	proc    *process // nil or ended: not running
	frozen  *freeze  // nil: not frozen
	primary *Server  // whose synchronous_standby_names names this server; nil for all others
}

func startLocal(ctx context.Context, c *config) (_ *Server, err error) {
	bin, err := findBinaries(c)
	if err != nil {
		return nil, err
	}
	l, err := newLocal(bin)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.destroy())
		}
	}()
	at := target{
		host: loopback, user: superuser, password: cryptorand.Text(), database: "postgres",
		params: url.Values{"sslmode": {"disable"}}, socket: l.socket,
	}
	if err := l.initdb(ctx, at.password); err != nil {
		return nil, err
	}
	settings := []setting{{"max_connections", "200"}, {"log_min_messages", "warning"}}
	if c.tls {
		if at.ca, err = l.writeCertificates(); err != nil {
			return nil, err
		}
		settings = append(settings, setting{"ssl", "on"})
	}
	if err := l.addSettings(append(settings, c.settings...)); err != nil {
		return nil, err
	}
	s := &Server{kind: Local, at: at, origin: "from " + bin, local: l, remove: l.destroy}
	return s, s.startOnFreePort(ctx)
}

// newLocal makes the directory of a server, and nothing in it but the socket's.
func newLocal(bin string) (*local, error) {
	acc, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := makeDir(acc)
	if err != nil {
		return nil, err
	}
	l := &local{bin: bin, account: acc, dir: dir, data: filepath.Join(dir, "data")}
	if runtime.GOOS != "windows" {
		l.socket = dir
	}
	return l, nil
}

// makeDir makes a directory that belongs to the account which runs the server.
func makeDir(acc account) (string, error) {
	var errs []error
	for _, parent := range tempDirs() {
		if len(parent)+len("/pgserver-1234567890/.s.PGSQL.12345") > socketPathLimit {
			errs = append(errs, fmt.Errorf("%s is too long for a Unix socket", parent))
			continue
		}
		if err := acc.canReach(parent); err != nil {
			errs = append(errs, err)
			continue
		}
		dir, err := os.MkdirTemp(parent, "pgserver-")
		if err == nil {
			err = errors.Join(os.Chmod(dir, 0o755), acc.own(dir))
			if err == nil {
				return dir, nil
			}
			err = errors.Join(err, os.Remove(dir))
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

func tempDirs() []string {
	if runtime.GOOS == "windows" || os.TempDir() == "/tmp" {
		return []string{os.TempDir()}
	}
	return []string{os.TempDir(), "/tmp"}
}

func (l *local) initdb(ctx context.Context, password string) error {
	pwfile := filepath.Join(l.dir, "password")
	if err := errors.Join(os.WriteFile(pwfile, []byte(password), 0o600), l.account.own(pwfile)); err != nil {
		return err
	}
	defer os.Remove(pwfile)
	locale := "C.UTF-8"
	if runtime.GOOS != "linux" {
		locale = "C" // the only one that every version everywhere knows
	}
	return l.run(ctx, nil, "initdb", "--pgdata="+l.data, "--no-sync", "--username="+superuser, "--pwfile="+pwfile,
		"--auth-host=scram-sha-256", "--auth-local=scram-sha-256", "--encoding=UTF8", "--locale="+locale)
}

// addSettings appends to postgresql.conf, where the last line for a name counts and ALTER SYSTEM still has its say.
func (l *local) addSettings(settings []setting) error {
	var b strings.Builder
	escape := strings.NewReplacer(`'`, `''`, `\`, `\\`, "\n", `\n`)
	for _, s := range settings {
		fmt.Fprintf(&b, "%s = '%s'\n", s.name, escape.Replace(s.value))
	}
	return appendFile(filepath.Join(l.data, "postgresql.conf"), b.String())
}

func appendFile(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// startOnFreePort tries another port if a process took the first one between the check and the server's bind.
func (s *Server) startOnFreePort(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.at.port = strconv.Itoa(port)
		s.local.mu.Lock()
		err = s.launch(ctx)
		s.local.mu.Unlock()
		if err == nil || attempt == portAttempts || isFree(port) {
			return err
		}
	}
}

// launch starts the postmaster and waits until it answers; if it doesn't, no process is left. The caller holds
// s.local.mu.
func (s *Server) launch(ctx context.Context) error {
	l := s.local
	logName := filepath.Join(l.dir, "log")
	log, err := os.OpenFile(logName, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	// On the command line stands only what is this instance's own: a standby inherits its primary's postgresql.conf.
	args := append([]string{"-D", l.data, "-p", s.at.port, "-c", "listen_addresses=" + loopback,
		"-c", "unix_socket_directories=" + l.socket}, l.flags...)
	// Not CommandContext: the server outlives the ctx of its start.
	cmd := l.prepare(exec.Command(l.path("postgres"), args...))
	cmd.Stdout, cmd.Stderr = log, log
	// Immediate shutdown is the one that waits for nobody, neither clients nor a standby that may be frozen.
	if l.proc, err = spawn(cmd, syscall.SIGQUIT); err != nil {
		return err
	}
	if err := ready(ctx, s.DSN(), l.proc.done); err != nil {
		tail, _ := os.ReadFile(logName)
		return errors.Join(fmt.Errorf("server did not start: %w: log: %s", err, tail[max(0, len(tail)-1000):]),
			l.end(syscall.SIGQUIT))
	}
	return nil
}

// run runs a program of PostgreSQL's to its end; the error contains what it printed.
func (l *local) run(ctx context.Context, env []string, name string, args ...string) error {
	cmd := l.prepare(exec.CommandContext(ctx, l.path(name), args...))
	cmd.Env = append(cmd.Env, env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

func (l *local) path(name string) string { return filepath.Join(l.bin, executable(name)) }

func (l *local) prepare(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = l.dir // the account may not be allowed to enter the current directory
	cmd.Env = environment(l.dir)
	// Binaries that are meant for any machine bring the libraries they need; a program of this machine must not get those.
	if lib := filepath.Join(filepath.Dir(l.bin), "lib"); runtime.GOOS == "linux" && hasLibpq(lib) {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+lib)
	}
	l.account.adopt(cmd)
	return cmd
}

func hasLibpq(dir string) bool {
	found, _ := filepath.Glob(filepath.Join(dir, "libpq.so*"))
	return len(found) > 0
}

// environment is this process's without what would change the server or its programs unseen, such as PGDATA, PGOPTIONS.
func environment(home string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") && !strings.HasPrefix(v, "LC_") {
			env = append(env, v)
		}
	}
	return append(env, "HOME="+home, "LC_ALL=C")
}

// freePort picks below the range from which systems take the ports of outgoing connections. A client that reconnects
// while the server is down could otherwise be given the server's own port, connect to itself, and so keep Restart from
// binding it.
func freePort() (int, error) {
	for range 100 {
		if port := 20000 + rand.IntN(12000); isFree(port) {
			return port, nil
		}
	}
	return 0, errors.New("no free port between 20000 and 32000")
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	return err == nil && l.Close() == nil
}
