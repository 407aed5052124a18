package maitred

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

const hijackBufferBytes = 4096

// Hijack is what http.Hijacker says, for requests that ask for an upgrade: the connection is the client's TCP socket, or one end
// of a socketpair behind whose other end Maitred has the client. Others return an error that wraps http.ErrNotSupported.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	x := w.x
	switch {
	case w.hijacked:
		return nil, nil, http.ErrHijacked
	case w.over:
		panic("maitred: Hijack called after ServeHTTP finished")
	case x.flags&flagMayDetach == 0:
		return nil, nil, fmt.Errorf("maitred: this connection cannot be taken over: %w", http.ErrNotSupported)
	case w.drops():
		return nil, nil, errors.New("maitred: the response is another one already, its head cannot be that of an upgrade")
	case w.tailing:
		return nil, nil, errors.New("maitred: the rest of the response was left to Maitred already")
	}
	if w.wroteHeader {
		w.pushPiece(false)
		w.flushOut(false, false)
		if w.err != nil {
			return nil, nil, w.err
		}
	}
	w.closeWaiter()
	conn, err := x.connection.detach()
	if err != nil {
		return nil, nil, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		conn.Close()
		return nil, nil, err
	}
	w.hijacked = true
	c := x.channel
	c.detached.Add(1)
	c.reports.add(func(out []byte) []byte { return appendDetach(out, x.connection.number, x.id) })
	c.reports.flush()
	x.connection.next()
	c.requests.Done()
	if socket, ok := conn.(*net.UnixConn); ok {
		conn = &relayed{socket, tcpAddress(x.meta.local), tcpAddress(x.meta.remote)}
	}
	// What came behind the head is what the reader has buffered, as in net/http.
	size := hijackBufferBytes
	if len(x.body) > size {
		size = len(x.body)
	}
	reader := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(x.body), conn), size)
	if _, err := reader.Peek(len(x.body)); err != nil {
		return nil, nil, err
	}
	return conn, bufio.NewReadWriter(reader, bufio.NewWriterSize(conn, hijackBufferBytes)), nil
}

// relayed is one end of a socketpair: its addresses are those of the client's connection, as applications expect of what they
// have taken over.
type relayed struct {
	*net.UnixConn
	local, remote net.Addr
}

func (r *relayed) LocalAddr() net.Addr  { return r.local }
func (r *relayed) RemoteAddr() net.Addr { return r.remote }

// detach takes the descriptor out: there will be no FORGET for it.
func (k *connection) detach() (net.Conn, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	copied, err := duplicate(k.fd)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(copied), "connection")
	defer file.Close()
	// It makes a copy of its own.
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	syscall.Close(k.fd)
	k.detached, k.fd = true, -1
	return conn, nil
}
