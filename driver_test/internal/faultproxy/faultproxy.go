// Package faultproxy puts a TCP proxy that can fail (toxiproxy) between a client and a server.
package faultproxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// A Proxy passes connections on to a server until it is told to fail.
//
// In front of toxiproxy stands a relay of its own, because toxiproxy resets an idle connection only when something is sent.
type Proxy struct {
	proxy *toxiproxy.Proxy
	dsn   *url.URL
	relay net.Listener

	mu      sync.Mutex
	clients []*net.TCPConn
}

// Start puts a proxy in front of the server that a DSN in URL form names.
func Start(dsn string) (*Proxy, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, err
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(server, "fault", net.JoinHostPort("127.0.0.1", "0"), u.Host)
	if err := p.Start(); err != nil {
		return nil, err
	}
	relay, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.Stop()
		return nil, err
	}
	u.Host = relay.Addr().String()
	f := &Proxy{proxy: p, dsn: u, relay: relay}
	go f.accept()
	return f, nil
}

func (p *Proxy) accept() {
	for {
		client, err := p.relay.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.proxy.Listen)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.clients = append(p.clients, client.(*net.TCPConn))
		p.mu.Unlock()
		for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
			go func() {
				_, _ = io.Copy(to, from)
				_ = to.Close()
			}()
		}
	}
}

// DSN leads to the server through the proxy.
func (p *Proxy) DSN() string { return p.dsn.String() }

// Silence has both directions say nothing any more, while the connections stay open. Both kernels go on answering for the
// proxy: keepalives do not notice.
func (p *Proxy) Silence() error { return p.fail("timeout", `{"timeout": 0}`) }

// HalfOpen lets through what clients say, and nothing of what the server says.
func (p *Proxy) HalfOpen() error { return p.add("timeout", `{"timeout": 0}`, "downstream") }

// Heal ends what Silence, HalfOpen and Delay began. Connections that were silent end then: what was said is lost.
func (p *Proxy) Heal() { p.proxy.Toxics.ResetToxics(context.Background()) }

// Reset has the connections end with a TCP reset.
func (p *Proxy) Reset() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clients {
		_ = c.SetLinger(0)
		_ = c.Close()
	}
	p.clients = nil
	return nil
}

// Delay has every packet of the server come ms milliseconds later.
func (p *Proxy) Delay(ms int) error { return p.fail("latency", fmt.Sprintf(`{"latency": %d}`, ms)) }

func (p *Proxy) fail(kind, attributes string) error {
	return p.add(kind, attributes, "upstream", "downstream")
}

func (p *Proxy) add(kind, attributes string, streams ...string) error {
	for _, stream := range streams {
		toxic := fmt.Sprintf(`{"name": "%s-%s", "type": "%s", "stream": "%s", "attributes": %s}`, kind, stream, kind, stream, attributes)
		if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends the proxy and its connections.
func (p *Proxy) Stop() {
	_ = p.relay.Close()
	_ = p.Reset()
	p.proxy.Stop()
}
