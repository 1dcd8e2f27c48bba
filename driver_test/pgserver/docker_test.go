package pgserver

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/ory/dockertest/v3"
	dc "github.com/ory/dockertest/v3/docker"
)

func TestDockerServerIsRemovedByStop(t *testing.T) {
	ctx := testContext(t)
	s, err := Start(ctx, WithKinds(Docker), WithSetting("work_mem", "123kB"), WithLog(t.Output()))
	if errors.Is(err, ErrNotHere) {
		NotRun(t, "docker", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	mustQuery(t, s.DSN(), "SELECT current_setting('work_mem') || current_setting('max_connections')", "123kB200")
	mustQuery(t, s.DSN(), "SELECT current_user::text", superuser)
	if err := execute(ctx, s.DSN(User(superuser, "x")), "SELECT 1"); err == nil {
		t.Error("connected with a wrong password")
	}
	name, err := s.CreateDatabase(ctx)
	if err != nil {
		t.Fatal(err)
	}
	mustQuery(t, s.DSN(Database(name)), "SELECT current_database()::text", name)
	if err := s.Freeze(); !errors.Is(err, ErrNotHere) {
		t.Errorf("Freeze: %v", err)
	}
	// Another test binary may have a container of its own at the same time: ours is the one with this port.
	u, err := url.Parse(s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseInt(u.Port(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := dockertest.NewPool("")
	if err != nil {
		t.Fatal(err)
	}
	if n := containersOn(t, pool, port); n < 1 {
		t.Errorf("%d containers before Stop", n)
	}
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	// Docker takes the container from its list a moment after it has removed it.
	err = until(ctx, nil, func(context.Context) error {
		if n := containersOn(t, pool, port); n > 0 {
			return errors.New("there are containers after Stop")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// containersOn counts the containers of this package that publish a port.
func containersOn(t *testing.T, pool *dockertest.Pool, port int64) (n int) {
	t.Helper()
	list, err := pool.Client.ListContainers(dc.ListContainersOptions{
		All: true, Filters: map[string][]string{"name": {"pgserver-"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		for _, p := range c.Ports {
			if p.PublicPort == port {
				n++
			}
		}
	}
	return n
}

func TestDockerFailsFastWithoutADaemonThatAnswers(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, through its backlog, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, host := range []string{"tcp://" + silent.Addr().String(), "unix://" + t.TempDir() + "/none.sock"} {
		t.Setenv("DOCKER_HOST", host)
		begin := time.Now()
		if _, err := Start(testContext(t), WithKinds(Docker)); !errors.Is(err, ErrNotHere) {
			t.Errorf("%s: %v", host, err)
		}
		if d := time.Since(begin); d > 2*time.Second {
			t.Errorf("%s: took %v", host, d)
		}
	}
}

func TestDockerHostIsWhereThePortsArePublished(t *testing.T) {
	for endpoint, want := range map[string][2]string{
		"unix:///var/run/docker.sock":    {loopback, loopback},
		"npipe:////./pipe/docker_engine": {loopback, loopback},
		"http://localhost:2375":          {loopback, loopback},
		"https://127.0.0.1:2376":         {loopback, loopback},
		"https://build.example.org:2376": {"build.example.org", ""},
	} {
		host, listen := dockerHost(endpoint)
		if host != want[0] || listen != want[1] {
			t.Errorf("%s: %s, %q", endpoint, host, listen)
		}
	}
}
