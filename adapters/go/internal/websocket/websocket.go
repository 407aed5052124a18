// Package websocket is a server of RFC 6455 that says everything again, for the applications of tests: no more than they need.
package websocket

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	opText, opBinary, opClose, opPing, opPong = 1, 2, 8, 9, 10

	messageBytesMax = 16 << 20
)

// Echo takes an upgrade to WebSocket, and the subprotocol echo if it is offered.
func Echo(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		http.Error(w, "not an upgrade", http.StatusUpgradeRequired)
		return
	}
	conn, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	hash := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	head := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(hash[:]) + "\r\n"
	if strings.Contains(r.Header.Get("Sec-WebSocket-Protocol"), "echo") {
		head += "Sec-WebSocket-Protocol: echo\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		return
	}
	sockets.add(conn)
	code := closing(talk(conn, buffered.Reader))
	if told := sockets.remove(conn); code != 0 && !told {
		_ = writeFrame(conn, opClose, binary.BigEndian.AppendUint16(nil, code))
	}
}

// closeError ends a connection with a code of RFC 6455, section 7.4.1.
type closeError uint16

func (closeError) Error() string { return "the connection is to be closed" }

func closing(err error) uint16 {
	var code closeError
	if errors.As(err, &code) {
		return uint16(code)
	}
	return 0
}

func talk(conn net.Conn, reader *bufio.Reader) error {
	var message []byte
	kind := byte(0)
	for {
		final, opcode, payload, err := readFrame(reader)
		if err != nil {
			return err
		}
		switch {
		case opcode == opPing:
			err = writeFrame(conn, opPong, payload)
		case opcode == opPong:
		case opcode == opClose:
			return answerToClose(payload)
		case (opcode == 0) == (kind == 0):
			return closeError(1002)
		default:
			if opcode != 0 {
				kind = opcode
			}
			message = append(message, payload...)
			if len(message) > messageBytesMax {
				return closeError(1009)
			}
			if !final {
				continue
			}
			if kind == opText && !utf8.Valid(message) {
				return closeError(1007)
			}
			err = writeFrame(conn, kind, message)
			message, kind = message[:0], 0
		}
		if err != nil {
			return err
		}
	}
}

func answerToClose(payload []byte) error {
	if len(payload) < 2 {
		return closeError(1000)
	}
	return closeError(binary.BigEndian.Uint16(payload))
}

func readFrame(reader *bufio.Reader) (final bool, opcode byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(reader, head[:]); err != nil {
		return false, 0, nil, err
	}
	final, opcode = head[0]&0x80 != 0, head[0]&0x0F
	length := uint64(head[1] & 0x7F)
	known := opcode <= opBinary || opcode >= opClose && opcode <= opPong
	control := opcode >= opClose
	if head[0]&0x70 != 0 || head[1]&0x80 == 0 || !known || control && (length > 125 || !final) {
		return false, 0, nil, closeError(1002)
	}
	if length >= 126 {
		room := make([]byte, map[uint64]int{126: 2, 127: 8}[length])
		if _, err := io.ReadFull(reader, room); err != nil {
			return false, 0, nil, err
		}
		length = 0
		for _, b := range room {
			length = length<<8 | uint64(b)
		}
	}
	if length > messageBytesMax {
		return false, 0, nil, closeError(1009)
	}
	masked := make([]byte, 4+length)
	if _, err := io.ReadFull(reader, masked); err != nil {
		return false, 0, nil, err
	}
	payload = masked[4:]
	for i := range payload {
		payload[i] ^= masked[i%4]
	}
	return final, opcode, payload, nil
}

func writeFrame(conn net.Conn, opcode byte, payload []byte) error {
	frame := []byte{0x80 | opcode}
	switch {
	case len(payload) < 126:
		frame = append(frame, byte(len(payload)))
	case len(payload) < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, 126), uint16(len(payload)))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 127), uint64(len(payload)))
	}
	_, err := conn.Write(append(frame, payload...))
	return err
}

// open is the WebSockets that are open; they get a close frame when the server ends.
type open struct {
	mu    sync.Mutex
	conns map[net.Conn]bool // whether the close frame was sent
}

var sockets = open{conns: make(map[net.Conn]bool)}

func (o *open) add(conn net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conns[conn] = false
}

// remove reports whether the client was sent the close frame.
func (o *open) remove(conn net.Conn) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer delete(o.conns, conn)
	return o.conns[conn]
}

// End sends a close frame to all clients, because the server ends.
func End() { sockets.end() }

func (o *open) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for conn := range o.conns {
		o.conns[conn] = true
		_ = writeFrame(conn, opClose, binary.BigEndian.AppendUint16(nil, 1001))
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	}
}
