package maitred

import (
	"context"
	"fmt"
	"log"
	"os"
	"syscall"
	"time"
)

// receiveBytes are asked of the channel at a time, unless a frame is larger.
const receiveBytes = 64 << 10

// detachedGrace is how long connections that were taken over may take to end in their protocol's own way.
const detachedGrace = 5 * time.Second

// channel is the connection to Maitred, read by one goroutine (run) and written through reports.
type channel struct {
	*life
	file    *os.File
	raw     syscall.RawConn
	reports *reports

	input   []byte // what has come and is not decoded: input[at:filled]
	at      int
	filled  int
	control []byte
	arrived []int // descriptors that belong to frames that are not decoded yet

	payloadMax int
	welcomed   bool
	trailed    *trailed // what came behind the body of the REQUEST that is next; nil if that is a frame as any other

	// What the last recvmsg brought.
	received, controlBytes, receiveFlags int
	receiveErr                           error
	read                                 func(fd uintptr) bool // tryReceive, made once

	connections map[uint32]*connection
	crew        crew
	head        []byte // room to make heads in
}

func newChannel(fd int, l *life) (*channel, error) {
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	// Being non-blocking it is waited for by Go's netpoller, and holds no thread.
	file := os.NewFile(uintptr(fd), "maitred channel")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &channel{
		life:        l,
		file:        file,
		raw:         raw,
		reports:     newReports(raw),
		input:       make([]byte, receiveBytes),
		control:     make([]byte, syscall.CmsgSpace(descriptorsMax*4)),
		payloadMax:  payloadBytesMax,
		connections: make(map[uint32]*connection),
	}
	c.read = c.tryReceive
	c.crew.reports = c.reports
	return c, nil
}

// run says HELLO and answers requests until the channel ends, or Maitred breaks the protocol; lost says that it has ended without
// a word.
func (c *channel) run(capacity int) (lost bool, err error) {
	c.reports.add(func(out []byte) []byte {
		return appendLimits(appendHello(out, capacity, c.name, c.recovery != nil), openFiles())
	})
	c.reports.flush()
	for {
		told, err := c.decode()
		c.crew.start()
		if told || err != nil {
			return false, err
		}
		if ended, err := c.receive(); ended || err != nil {
			return true, err
		}
	}
}

// drain finishes what was begun.
func (c *channel) drain() {
	// Nothing listens there: it runs what the program has registered for this moment, and returns.
	_ = c.server.Shutdown(context.Background())
	c.requests.Wait()
	c.reports.finish()
	gone := make(chan struct{})
	go func() {
		c.detached.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(detachedGrace):
		c.logf("maitred: connections that were taken over did not end within %v", detachedGrace)
	}
}

// stopReceiving takes no more requests; those that the kernel holds are still read. What Maitred sends from now on fails
// on its side, so that no request is lost in between.
func (c *channel) stopReceiving() {
	_ = c.raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RD) })
}

// close closes every descriptor that was received, and the channel.
func (c *channel) close() {
	c.file.Close()
	c.crew.end()
	for _, connection := range c.connections {
		connection.forget()
	}
	c.connections = nil
	closeAll(c.arrived)
	c.arrived = nil
}

func (c *channel) logf(format string, arguments ...any) {
	if c.server.ErrorLog != nil {
		c.server.ErrorLog.Printf(format, arguments...)
	} else {
		log.Printf(format, arguments...)
	}
}

// receive is one recvmsg, waited for; it reports whether the channel has ended. A frame that is not complete then is dropped.
func (c *channel) receive() (ended bool, err error) {
	c.makeRoom()
	if err := c.raw.Read(c.read); err != nil {
		return true, err
	}
	if c.receiveErr == syscall.ECONNRESET {
		return true, nil
	}
	if c.receiveErr != nil {
		return true, fmt.Errorf("maitred: receiving from Maitred: %w", c.receiveErr)
	}
	c.filled += c.received
	if c.controlBytes > 0 {
		if err := c.keep(c.control[:c.controlBytes]); err != nil {
			return true, err
		}
	}
	if c.receiveFlags&syscall.MSG_CTRUNC != 0 {
		return true, violation("descriptors were lost: too many in one message, or no free descriptor left")
	}
	return c.received == 0, nil
}

// tryReceive is called again when there is something to receive, if it returns false.
func (c *channel) tryReceive(fd uintptr) bool {
	for {
		c.received, c.controlBytes, c.receiveFlags, c.receiveErr = receive(int(fd), c.input[c.filled:], c.control)
		if c.receiveErr != syscall.EINTR {
			return c.receiveErr != syscall.EAGAIN
		}
	}
}

// makeRoom moves what waits to the front, and has room for the frame that is under way.
func (c *channel) makeRoom() {
	waiting := c.filled - c.at
	wanted := receiveBytes
	if waiting >= headerBytes {
		// The header was checked by decode.
		if h, err := parseHeader(c.input[c.at:], c.payloadMax); err == nil && headerBytes+h.payload > wanted {
			wanted = headerBytes + h.payload
		}
	}
	if len(c.input) != wanted && waiting <= wanted {
		input := make([]byte, wanted)
		copy(input, c.input[c.at:c.filled])
		c.input = input
	} else if c.at > 0 {
		copy(c.input, c.input[c.at:c.filled])
	}
	c.at, c.filled = 0, waiting
}

func (c *channel) keep(control []byte) error {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return violation("ancillary data: %v", err)
	}
	for i := range messages {
		if rights, err := syscall.ParseUnixRights(&messages[i]); err == nil {
			c.arrived = append(c.arrived, rights...)
		}
	}
	return nil
}

// decode acts on every complete frame; it reports whether one of them was SHUTDOWN.
func (c *channel) decode() (ended bool, err error) {
	for c.filled-c.at >= headerBytes {
		h, err := parseHeader(c.input[c.at:c.filled], c.payloadMax)
		if err != nil {
			return false, err
		}
		end := c.at + headerBytes + h.payload
		if end > c.filled {
			return false, nil
		}
		payload := c.input[c.at+headerBytes : end]
		c.at = end
		if c.welcomed == (h.kind == kindWelcome) {
			return false, violation("WELCOME is not the first frame, or not the only one")
		}
		if c.trailed != nil && !c.trailed.belongTo(h) {
			return false, violation("TRAILERS that do not stand before their REQUEST, but a frame of kind %d", h.kind)
		}
		if h.kind == kindShutdown {
			return true, nil
		}
		if err := c.act(h, payload); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (c *channel) act(h header, payload []byte) error {
	switch h.kind {
	case kindRequest:
		return c.onRequest(h, payload)
	case kindTrailers:
		fields, err := parseTrailers(string(payload))
		c.trailed = &trailed{connection: h.connection, request: h.request, fields: fields}
		return err
	case kindForget:
		if known := c.connections[h.connection]; known != nil {
			delete(c.connections, h.connection)
			known.forget()
		}
	case kindCancel:
		if known := c.connections[h.connection]; known != nil {
			known.cancel(h.request)
		}
	case kindPing:
		c.reports.add(func(out []byte) []byte { return appendPong(out, h.request) })
		c.reports.flush()
	case kindWelcome:
		return c.onWelcome(payload)
	default:
		unknown, err := c.take(h.descriptors)
		closeAll(unknown)
		return err
	}
	return nil
}

func (c *channel) onWelcome(payload []byte) error {
	chosen := int(payload[0]) | int(payload[1])<<8
	largest := int64(payload[4]) | int64(payload[5])<<8 | int64(payload[6])<<16 | int64(payload[7])<<24
	if chosen != version {
		return violation("version %d, which was not offered", chosen)
	}
	if largest > payloadBytesMax {
		largest = payloadBytesMax
	}
	c.payloadMax, c.welcomed = int(largest), true
	return nil
}

func (c *channel) onRequest(h header, payload []byte) error {
	descriptors, err := c.take(h.descriptors)
	if err != nil {
		return err
	}
	x := &exchange{channel: c, id: h.request, flags: h.flags}
	if c.trailed != nil {
		x.trailers, c.trailed = c.trailed.fields, nil
	}
	if h.flags&flagBodyFD != 0 {
		last := len(descriptors) - 1
		x.bodyFile = os.NewFile(uintptr(descriptors[last]), "request body")
		descriptors = descriptors[:last]
	}
	meta, head, body, err := parts(payload)
	if err != nil {
		closeAll(descriptors)
		return err
	}
	if len(body) > 0 {
		x.body = append([]byte(nil), body...)
	}
	known := c.connections[h.connection]
	if len(descriptors) > 0 {
		if known != nil {
			known.forget()
		}
		known = &connection{number: h.connection, fd: descriptors[0]}
		c.connections[h.connection] = known
	}
	if known == nil {
		return violation("a REQUEST for connection %d, whose descriptor never came", h.connection)
	}
	known.meta = metaOf(meta, known.meta)
	x.connection, x.meta = known, known.meta
	x.head, x.known = known.headOf(head, &c.head)
	return known.begin(x)
}

// take removes the next descriptors from the queue.
func (c *channel) take(count int) ([]int, error) {
	if count > len(c.arrived) {
		return nil, violation("a descriptor that was announced did not come")
	}
	taken := c.arrived[:count:count]
	c.arrived = c.arrived[count:]
	if len(c.arrived) == 0 {
		c.arrived = nil
	}
	return taken, nil
}

func closeAll(descriptors []int) {
	for _, descriptor := range descriptors {
		syscall.Close(descriptor)
	}
}
