package maitredfasthttp

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"maitred/internal/front"
)

// informBytesMax bounds what an application writes of one informational response: the protocol's limit.
const informBytesMax = 16 << 10

// conn stands where fasthttp has the client's connection: it knows the addresses, and takes informational responses.
type conn struct {
	x front.Exchange

	mu    sync.Mutex
	early []byte
	over  bool // the response has begun
}

// secure is conn where the client speaks TLS.
type secure struct{ *conn }

func (s secure) Handshake() error { return nil }
func (s secure) ConnectionState() tls.ConnectionState {
	return tls.ConnectionState{HandshakeComplete: true}
}

func (c *conn) Read([]byte) (int, error)           { return 0, io.EOF }
func (c *conn) Close() error                       { return nil }
func (c *conn) LocalAddr() net.Addr                { return address(c.x.Local()) }
func (c *conn) RemoteAddr() net.Addr               { return address(c.x.Remote()) }
func (c *conn) SetDeadline(t time.Time) error      { return c.x.SetWriteDeadline(t) }
func (c *conn) SetReadDeadline(time.Time) error    { return nil }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.x.SetWriteDeadline(t) }

// Write is called by RequestCtx.EarlyHints: fasthttp writes an informational response.
func (c *conn) Write(data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return 0, net.ErrClosed
	}
	if len(c.early)+len(data) > informBytesMax {
		c.early = nil
		return len(data), nil
	}
	c.early = append(c.early, data...)
	head, _, complete := bytes.Cut(c.early, []byte("\r\n\r\n"))
	if !complete {
		return len(data), nil
	}
	lines := strings.Split(string(head), "\r\n")
	c.early = nil
	parts := strings.SplitN(lines[0], " ", 3)
	if len(parts) < 2 {
		return len(data), nil
	}
	status, err := strconv.Atoi(parts[1])
	if err != nil || status < 100 || status > 199 {
		return len(data), nil
	}
	var fields []front.Field
	for _, line := range lines[1:] {
		if name, value, found := strings.Cut(line, ":"); found {
			fields = append(fields, front.Field{Name: name, Value: strings.TrimSpace(value)})
		}
	}
	c.x.Inform(status, fields)
	return len(data), nil
}

// finish refuses what comes from now on: a handler whose time was over (fasthttp.TimeoutHandler) may still run.
func (c *conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

func address(text string) net.Addr {
	parsed, err := netip.ParseAddrPort(text)
	if err != nil {
		return &net.TCPAddr{}
	}
	return net.TCPAddrFromAddrPort(parsed)
}
