// Package wire stands between a driver and its server: it counts what the driver sends and how often it waits for an answer,
// and loses answers.
package wire

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// A Counter watches every connection that it dials, which must be without TLS. It may be used by several goroutines.
type Counter struct {
	mu         sync.Mutex
	statements int
	trips      int
	cut        bool
}

// CutNext has the connection on which the next statement is executed break when its answer comes: the server has done what it
// was asked for, and the driver does not learn of it.
func (c *Counter) CutNext() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
}

// takeCut reports whether a connection is to break, once.
func (c *Counter) takeCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	cut := c.cut
	c.cut = false
	return cut
}

// Reset begins a new count.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statements, c.trips = 0, 0
}

// Count returns how many statements were executed (Execute and Query messages, without the pings of drivers) and how often the driver waited for an
// answer (data came after something was sent) since the last Reset.
func (c *Counter) Count() (statements, trips int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.statements, c.trips
}

// DialContext is what both drivers dial with.
func (c *Counter) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	inner, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: inner, counter: c}, nil
}

// Dial and DialTimeout make a Counter the Dialer of lib/pq, which uses DialContext all the same.
func (c *Counter) Dial(network, address string) (net.Conn, error) {
	return c.DialContext(context.Background(), network, address)
}

// DialTimeout is DialContext with a timeout.
func (c *Counter) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return c.DialContext(ctx, network, address)
}

type conn struct {
	net.Conn
	counter *Counter

	mu      sync.Mutex
	sent    []byte // what has been sent of a message that is not complete
	started bool   // the startup message, which has no type, has been sent
	running bool   // a statement was executed since data came last
	asked   bool   // something was sent since data came last
}

func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock() // before it is sent, since somebody may be reading: the answer must not be noted before the question
	c.asked = true
	c.sent = append(c.sent, b...)
	c.scan()
	c.mu.Unlock()
	return c.Conn.Write(b)
}

// scan takes the complete messages off c.sent.
func (c *conn) scan() {
	for {
		kind, header := byte(0), 0
		if c.started {
			header = 1
		}
		if len(c.sent) < header+4 {
			return
		}
		if c.started {
			kind = c.sent[0]
		}
		length := header + int(binary.BigEndian.Uint32(c.sent[header:]))
		if len(c.sent) < length {
			return
		}
		message := c.sent[:length]
		c.sent = c.sent[length:]
		c.started = true
		if kind == 'E' || kind == 'Q' && !ping(message) {
			c.counter.mu.Lock()
			c.counter.statements++
			c.counter.mu.Unlock()
			c.running = true
		}
	}
}

// ping reports whether a Query message is what a driver makes sure with that the connection is alive: pgx does so by itself before
// it uses one that was idle for a second.
func ping(message []byte) bool {
	text := string(message[5 : len(message)-1])
	return text == "-- ping" || text == ";"
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 && c.running {
		c.running = false
		if c.counter.takeCut() {
			_ = c.Close()
			return 0, io.EOF
		}
	}
	if n > 0 && c.asked {
		c.asked = false
		c.counter.mu.Lock()
		c.counter.trips++
		c.counter.mu.Unlock()
	}
	return n, err
}
