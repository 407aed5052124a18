package maitred

import (
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// benchBatch is how many requests are under way at a time.
const benchBatch = 16

// benchPage is 1 KB, with a length and a type.
var benchPage = func() http.HandlerFunc {
	page := make([]byte, 1024)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Length", strconv.Itoa(len(page)))
		w.Write(page)
	}
}()

// benchFields are those of a browser.
var benchFields = []string{
	"user-agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "accept: text/html,*/*;q=0.8",
	"accept-language: en-GB,en;q=0.5", "accept-encoding: gzip, deflate, br, zstd", "cookie: session=0123456789abcdef",
	"sec-fetch-dest: document", "x-request-id: 0123456789abcdef", "x-request-start: t=1700000000.123",
}

// BenchmarkNetHTTP is the same as BenchmarkRequest by net/http alone, over TCP.
func BenchmarkNetHTTP(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := http.Server{Handler: benchPage}
	defer s.Close()
	go s.Serve(listener)
	request := []byte("GET /page?q=1 HTTP/1.1\r\nHost: example.com\r\n" + strings.Join(benchFields, "\r\n") + "\r\n\r\n")
	room := make([]byte, 64<<10)
	var all []net.Conn
	for i := 0; i < benchBatch; i++ {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		all = append(all, conn)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += benchBatch {
		for _, conn := range all {
			conn.Write(request)
		}
		for _, conn := range all {
			for got := 0; got < 1024; {
				n, err := conn.Read(room)
				if err != nil {
					b.Fatal(err)
				}
				got += n
			}
		}
	}
}

// BenchmarkRequest is a request and its response of 1 KB on a connection that is known, as a browser sends it; sixteen at a time.
func BenchmarkRequest(b *testing.B) {
	const batch = benchBatch
	ours, theirs, _ := benchPair(b)
	s := Server{HTTP: &http.Server{Handler: benchPage}}
	go s.serve(theirs, noDescriptor, false)
	welcome := append(appendHeader(nil, 8, kindWelcome, 0, 0, 0, 0), version, 0, 0, 0, 0, 0, 32, 0)
	request := ask{target: "/page?q=1", flags: flagKeep, fields: benchFields}
	var near, far []int
	var first, next []byte
	for i := uint32(0); i < batch; i++ {
		one, other, _ := benchPair(b)
		near, far = append(near, one), append(far, other)
		first = append(first, request.frame(i, i, 1)...)
		next = append(next, request.frame(i, i, 0)...)
	}
	room := make([]byte, 64<<10)
	n, _ := syscall.Read(ours, room)
	if n == 0 {
		b.Fatal("no HELLO")
	}
	syscall.Write(ours, welcome)
	send := func(data, rights []byte) {
		if err := syscall.Sendmsg(ours, data, rights, nil, 0); err != nil {
			b.Fatal(err)
		}
		for bytes := 0; bytes < batch*(headerBytes+16); {
			n, err := syscall.Read(ours, room)
			if err != nil {
				b.Fatal(err)
			}
			bytes += n
		}
		for _, fd := range near {
			syscall.Read(fd, room)
		}
	}
	send(first, syscall.UnixRights(far...))
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += batch {
		send(next, nil)
	}
}

func benchPair(b *testing.B) (int, int, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { closeAll(fds[:1]) })
	return fds[0], fds[1], err
}
