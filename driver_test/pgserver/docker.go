package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/ory/dockertest/v3"
	dc "github.com/ory/dockertest/v3/docker"
)

const (
	defaultImage  = "postgres:17-alpine"
	containerPort = "5432/tcp"
	daemonLimit   = 1500 * time.Millisecond
	pullLimit     = 2 * time.Minute
	containerLife = time.Hour // after which a container whose process was killed ends
)

func startDocker(ctx context.Context, c *config) (*Server, error) {
	if c.tls {
		return nil, errors.New("a container isn't given a certificate")
	}
	pool, err := dockertest.NewPool("")
	if err != nil {
		return nil, err
	}
	ping, cancel := context.WithTimeout(ctx, daemonLimit)
	defer cancel()
	if err := pool.Client.PingWithContext(ping); err != nil {
		return nil, fmt.Errorf("no daemon answers: %w", err)
	}
	image := os.Getenv("PGLEASE_TEST_IMAGE")
	if image == "" {
		image = defaultImage
	}
	repository, tag := dc.ParseRepositoryTag(image)
	if tag == "" {
		tag = "latest"
	}
	if err := pull(ctx, pool.Client, repository, tag); err != nil {
		return nil, err
	}
	return runContainer(ctx, c, pool, repository, tag)
}

// pull is what RunWithOptions would do too, but with a limit. An image that is here is used as it is.
func pull(ctx context.Context, client *dc.Client, repository, tag string) error {
	_, err := client.InspectImage(repository + ":" + tag)
	if !errors.Is(err, dc.ErrNoSuchImage) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pullLimit)
	defer cancel()
	err = client.PullImage(dc.PullImageOptions{Repository: repository, Tag: tag, Context: ctx}, dc.AuthConfiguration{})
	if err != nil {
		return fmt.Errorf("no image %s:%s and no pull of it: %w", repository, tag, err)
	}
	return nil
}

func runContainer(ctx context.Context, c *config, pool *dockertest.Pool, repository, tag string) (_ *Server, err error) {
	password := rand.Text()
	cmd := []string{"-c", "max_connections=200"}
	for _, s := range c.settings {
		cmd = append(cmd, "-c", s.name+"="+s.value)
	}
	name := "pgserver-" + randomName()
	defer func() {
		if err != nil {
			// By name: an error of RunWithOptions may come after it made the container.
			err = errors.Join(err, removeContainer(pool, name))
		}
	}()
	host, listen := dockerHost(pool.Client.Endpoint())
	resource, err := pool.RunWithOptions(&dockertest.RunOptions{
		Name:         name,
		Repository:   repository,
		Tag:          tag,
		Cmd:          cmd,
		Env:          []string{"POSTGRES_USER=" + superuser, "POSTGRES_PASSWORD=" + password, "POSTGRES_DB=postgres"},
		ExposedPorts: []string{containerPort},
		PortBindings: map[dc.Port][]dc.PortBinding{containerPort: {{HostIP: listen}}},
	}, func(h *dc.HostConfig) { h.AutoRemove = true })
	if err != nil {
		return nil, err
	}
	if err := resource.Expire(uint(containerLife / time.Second)); err != nil {
		return nil, err
	}
	s := &Server{
		kind: Docker,
		at: target{
			host: host, port: resource.GetPort(containerPort), user: superuser, password: password, database: "postgres",
			params: url.Values{"sslmode": {"disable"}},
		},
		origin: "image " + repository + ":" + tag,
		remove: func() error { return removeContainer(pool, name) },
	}
	return s, awaitContainer(ctx, pool, resource, s)
}

// awaitContainer waits until the server in the container answers. Retry knows no ctx, so an attempt that should be the
// last one returns nil and leaves its error in failed.
func awaitContainer(ctx context.Context, pool *dockertest.Pool, resource *dockertest.Resource, s *Server) error {
	var failed error
	pool.MaxWait = startLimit
	err := pool.Retry(func() error {
		attempt, cancel := context.WithTimeout(ctx, attemptLimit)
		defer cancel()
		err := execute(attempt, s.DSN(), "SELECT 1")
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			failed = fmt.Errorf("%w: %w", context.Cause(ctx), err)
			return nil
		}
		container, inspectErr := pool.Client.InspectContainer(resource.Container.ID)
		if inspectErr != nil || !container.State.Running {
			failed = fmt.Errorf("the container ended: %w", errors.Join(err, inspectErr))
			return nil
		}
		return err
	})
	return errors.Join(err, failed)
}

// removeContainer takes it as done if there is no such container; one that is being removed by itself counts as gone.
func removeContainer(pool *dockertest.Pool, name string) error {
	err := pool.Client.RemoveContainer(dc.RemoveContainerOptions{ID: name, Force: true, RemoveVolumes: true})
	var missing *dc.NoSuchContainer
	if errors.As(err, &missing) {
		return nil
	}
	return err
}

// dockerHost returns the host at which the daemon's published ports are reached, and the address to publish them on:
// of a daemon on this machine only the loopback address.
func dockerHost(endpoint string) (host, listen string) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Hostname() == "" || strings.HasPrefix(u.Scheme, "unix") || u.Scheme == "npipe" {
		return loopback, loopback
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback()) {
		return loopback, loopback
	}
	return u.Hostname(), ""
}
