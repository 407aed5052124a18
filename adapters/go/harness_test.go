package maitred

import (
	"bufio"
	"encoding/binary"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// deadline only bounds how long a broken adapter can hold the tests up.
const deadline = 60 * time.Second

// server plays Maitred's side of a channel.
type server struct {
	t      *testing.T
	conn   *net.UnixConn
	log    *buffer
	result chan error
	number uint32
	input  []byte
	files  []int
}

// buffer is a text that several goroutines write.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(data)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func pair(t *testing.T) (int, int) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fds[0], fds[1]
}

func start(t *testing.T, handler http.Handler) *server {
	t.Helper()
	return startServer(t, &Server{HTTP: &http.Server{Handler: handler}})
}

func startServer(t *testing.T, s *Server) *server {
	t.Helper()
	ours, theirs := pair(t)
	made := &server{t: t, conn: connOf(t, ours).(*net.UnixConn), log: &buffer{}, result: make(chan error, 1)}
	s.HTTP.ErrorLog = log.New(made.log, "", 0)
	go func() { made.result <- s.serve(theirs, noDescriptor, false) }()
	t.Cleanup(func() {
		made.conn.Close()
		closeAll(made.files)
	})
	_ = made.conn.SetDeadline(time.Now().Add(deadline))
	hello, _ := made.frame()
	if hello.kind != kindHello {
		t.Fatalf("the first frame is of kind %d", hello.kind)
	}
	welcome := appendHeader(nil, 8, kindWelcome, 0, 0, 0, 0)
	welcome = append(welcome, version, 0, 0, 0)
	made.send(binary.LittleEndian.AppendUint32(welcome, payloadBytesMax))
	return made
}

func connOf(t *testing.T, fd int) net.Conn {
	t.Helper()
	file := os.NewFile(uintptr(fd), "")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func (s *server) send(data []byte, files ...int) {
	s.t.Helper()
	var rights []byte
	if len(files) > 0 {
		rights = syscall.UnixRights(files...)
	}
	if _, _, err := s.conn.WriteMsgUnix(data, rights, nil); err != nil {
		s.t.Fatal(err)
	}
}

// frame reads the next frame from the adapter.
func (s *server) frame() (header, []byte) {
	s.t.Helper()
	for {
		if len(s.input) >= headerBytes {
			length := int(binary.LittleEndian.Uint32(s.input))
			if len(s.input) >= headerBytes+length {
				h := header{
					kind: s.input[4], flags: s.input[5], payload: length,
					connection: binary.LittleEndian.Uint32(s.input[8:]), request: binary.LittleEndian.Uint32(s.input[12:]),
				}
				payload := s.input[headerBytes : headerBytes+length]
				s.input = s.input[headerBytes+length:]
				if h.kind != kindLimits {
					return h, payload
				}
				continue
			}
		}
		if s.receive() == 0 {
			s.t.Fatal("the adapter closed the channel")
		}
	}
}

// receive is one recvmsg; what it brought is in input and files.
func (s *server) receive() int {
	s.t.Helper()
	data, control := make([]byte, 1<<20), make([]byte, 2048)
	n, c, _, _, err := s.conn.ReadMsgUnix(data, control)
	if err == io.EOF {
		return 0
	}
	if err != nil {
		s.t.Fatal(err)
	}
	messages, _ := syscall.ParseSocketControlMessage(control[:c])
	for i := range messages {
		rights, _ := syscall.ParseUnixRights(&messages[i])
		s.files = append(s.files, rights...)
	}
	s.input = append(append([]byte(nil), s.input...), data[:n]...)
	return n
}

// finished is a DONE, with what its TAILs said.
type finished struct {
	done
	request uint32
	tail    []byte
	tails   []byte // flags of each
}

// done reads frames up to the next DONE.
func (s *server) done() finished {
	s.t.Helper()
	var f finished
	for {
		h, payload := s.frame()
		switch h.kind {
		case kindTail:
			f.tails = append(f.tails, h.flags)
			if h.flags == flagFile {
				payload = s.readFile(payload)
			}
			f.tail = append(f.tail, payload...)
		case kindDone:
			f.request = h.request
			f.done = done{
				flags: h.flags, status: int(binary.LittleEndian.Uint16(payload)),
				serviceUS: binary.LittleEndian.Uint32(payload[4:]), bodyBytes: binary.LittleEndian.Uint64(payload[8:]),
			}
			return f
		default:
			s.t.Fatalf("a frame of kind %d", h.kind)
		}
	}
}

func (s *server) readFile(payload []byte) []byte {
	s.t.Helper()
	data := make([]byte, binary.LittleEndian.Uint64(payload[8:]))
	n, err := syscall.Pread(s.files[0], data, int64(binary.LittleEndian.Uint64(payload)))
	if err != nil || n < len(data) {
		s.t.Fatalf("a TAIL of %d bytes of a file that has %d: %v", len(data), n, err)
	}
	syscall.Close(s.files[0])
	s.files = s.files[1:]
	return data
}

// ask is a request to send.
type ask struct {
	method, target string
	fields         []string // "name: value"
	body           string
	flags          byte
	meta           string
	trailers       string // lines, for TRAILERS before it
}

func (a ask) frame(connection, request uint32, descriptors uint16) []byte {
	if a.method == "" {
		a.method = "GET"
	}
	if a.method == "HEAD" {
		a.flags |= flagHead
	}
	head := a.method + " " + a.target + " HTTP/1.1\r\nhost: example.com\r\n"
	for _, field := range a.fields {
		head += field + "\r\n"
	}
	head += "\r\n"
	meta := "remote=192.0.2.7:4711\nlocal=127.0.0.1:8080\nscheme=http\nmount=\nqueue_us=1\n"
	if a.meta != "" {
		meta = a.meta
	}
	payload := binary.LittleEndian.AppendUint32(nil, uint32(len(meta)))
	payload = binary.LittleEndian.AppendUint32(payload, uint32(len(head)))
	payload = binary.LittleEndian.AppendUint32(payload, uint32(len(a.body)))
	payload = append(payload, meta+head+a.body...)
	var out []byte
	if a.trailers != "" {
		out = appendHeader(out, len(a.trailers), kindTrailers, flagOptional, 0, connection, request)
		out = append(out, a.trailers...)
	}
	return append(appendHeader(out, len(payload), kindRequest, a.flags, descriptors, connection, request), payload...)
}

// client is the other end of a response descriptor.
type client struct {
	net.Conn
	number uint32
}

// begin sends a request on a connection of its own.
func (s *server) begin(a ask) client {
	s.t.Helper()
	near, far := pair(s.t)
	defer syscall.Close(far)
	if err := syscall.SetNonblock(far, true); err != nil {
		s.t.Fatal(err)
	}
	s.number++
	c := client{connOf(s.t, near), s.number}
	s.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(deadline))
	s.send(a.frame(s.number, s.number, 1), far)
	return c
}

// forget makes the adapter close its end, so that what a client reads has an end.
func (s *server) forget(c client) {
	s.send(appendHeader(nil, 0, kindForget, 0, 0, c.number, 0))
}

// exchange sends a request; it returns all that the client got, with the tail, and the report.
func (s *server) exchange(a ask) (string, finished) {
	s.t.Helper()
	c := s.begin(a)
	f := s.done()
	s.forget(c)
	data, err := io.ReadAll(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data) + string(f.tail), f
}

// get is exchange, with the response parsed.
func (s *server) get(a ask) (*http.Response, string, finished) {
	s.t.Helper()
	raw, f := s.exchange(a)
	response, body := parse(s.t, raw, a.method)
	return response, body, f
}

func parse(t *testing.T, raw, method string) (*http.Response, string) {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(raw)), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%v in %q", err, raw)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%v in %q", err, raw)
	}
	return response, string(body)
}

// end sends SHUTDOWN, and returns what Serve returns.
func (s *server) end() error {
	s.t.Helper()
	s.send(appendHeader(nil, 0, kindShutdown, 0, 0, 0, 0))
	return s.returned()
}

func (s *server) returned() error {
	s.t.Helper()
	select {
	case err := <-s.result:
		return err
	case <-time.After(deadline):
		s.t.Fatal("Serve does not return")
		return nil
	}
}
