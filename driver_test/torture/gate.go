//go:build linux

package main

import (
	"io"
	"net"
	"sync"
)

// A gate is the one address at which clients find the primary, as a virtual IP address is: a failover moves it.
type gate struct {
	listener net.Listener

	mu     sync.Mutex
	server string // host:port, or "" if there is none
	conns  map[net.Conn]struct{}
}

func newGate(server string) (*gate, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gate{listener: l, server: server, conns: make(map[net.Conn]struct{})}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go g.pass(client)
		}
	}()
	return g, nil
}

func (g *gate) address() string { return g.listener.Addr().String() }

// lead makes server the primary. Connections to the one before end.
func (g *gate) lead(server string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.server = server
	for c := range g.conns {
		_ = c.Close()
	}
}

func (g *gate) pass(client net.Conn) {
	defer client.Close()
	g.mu.Lock()
	server, err := net.Dial("tcp", g.server) // at once: the servers are on this machine
	if err != nil {
		g.mu.Unlock()
		return
	}
	g.conns[client], g.conns[server] = struct{}{}, struct{}{}
	g.mu.Unlock()
	defer func() {
		_ = server.Close()
		g.mu.Lock()
		delete(g.conns, client)
		delete(g.conns, server)
		g.mu.Unlock()
	}()
	ended := make(chan struct{}, 2)
	for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
		go func() {
			_, _ = io.Copy(to, from)
			ended <- struct{}{}
		}()
	}
	<-ended // one side has: then the other is to hear of it
}

func (g *gate) close() {
	_ = g.listener.Close()
	g.lead("")
}
