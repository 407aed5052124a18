// quic-go as a client of HTTP/3.
//
//	quicgo -ca FILE ORIGIN
//
// ORIGIN is where cargo xtask http3 serves its site. Exit status: 0 if all was as it has to be.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

const (
	largeBytes  = 20_000_000
	uploadBytes = 10_000_000
	atOnce      = 100
	// After this, something hangs.
	timeout = time.Minute
)

// A site, and how it is asked.
type site struct {
	origin *url.URL
	tls    *tls.Config
}

func main() {
	ca := flag.String("ca", "", "the certificate that the site's is signed by")
	flag.Parse()
	origin, err := url.Parse(flag.Arg(0))
	if err == nil {
		err = run(origin, *ca)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "quic-go:", err)
		os.Exit(1)
	}
}

func run(origin *url.URL, ca string) error {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s has no certificate", ca)
	}
	s := site{origin, &tls.Config{RootCAs: roots, NextProtos: []string{http3.NextProtoH3}, ServerName: origin.Hostname()}}
	failed := 0
	cases := []struct {
		name string
		act  func(*site) error
	}{
		{"requests", requests}, {"upload", upload}, {"at once", concurrent}, {"trailers", trailers}, {"0-RTT", earlyData},
		{"migration", migration}, {"WebSocket", webSocket}, {"cancelled", cancelled},
	}
	for _, one := range cases {
		if err := one.act(&s); err != nil {
			fmt.Printf("FAILED %s: %v\n", one.name, err)
			failed++
		} else {
			fmt.Printf("ok     %s\n", one.name)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d failed", failed, len(cases))
	}
	return nil
}

// transport is one with a connection of its own.
func (s *site) transport() *http3.Transport {
	return &http3.Transport{TLSClientConfig: s.tls.Clone()}
}

func (s *site) request(method, path string, body io.Reader) *http.Request {
	request, err := http.NewRequest(method, s.origin.JoinPath(path).String(), body)
	if err != nil {
		panic(err)
	}
	return request
}

// ask sends a request, and reads the whole response.
func ask(transport http.RoundTripper, request *http.Request) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(request.Context(), timeout)
	defer cancel()
	response, err := transport.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response, content, err
}

// expect asks for a status, and for a length if that is not negative.
func (s *site) expect(transport http.RoundTripper, method, path string, status, length int) error {
	response, content, err := ask(transport, s.request(method, path, nil))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode != status || response.ProtoMajor != 3 || length >= 0 && len(content) != length {
		return fmt.Errorf("%s %s: %s %s, %d bytes", method, path, response.Proto, response.Status, len(content))
	}
	return nil
}

func requests(s *site) error {
	transport := s.transport()
	defer transport.Close()
	return errors.Join(
		s.expect(transport, "GET", "/a.txt", 200, 7),
		s.expect(transport, "HEAD", "/large.bin", 200, 0),
		s.expect(transport, "GET", "/large.bin", 200, largeBytes),
		s.expect(transport, "GET", "/none", 404, -1),
		s.expect(transport, "GET", "/gone", 410, -1),
		s.expect(transport, "POST", "/a.txt", 405, -1),
	)
}

func upload(s *site) error {
	transport := s.transport()
	defer transport.Close()
	content := make([]byte, uploadBytes)
	rand.Read(content)
	return s.upload(transport, content)
}

func (s *site) upload(transport http.RoundTripper, content []byte) error {
	response, said, err := ask(transport, s.request("POST", "/app/upload", bytes.NewReader(content)))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	var seen struct {
		Length int
		Sha256 string
	}
	err = json.Unmarshal(said, &seen)
	if err != nil || seen.Length != len(content) || seen.Sha256 != hex.EncodeToString(sum[:]) {
		return fmt.Errorf("%s: %.200s", response.Status, said)
	}
	return nil
}

func concurrent(s *site) error {
	transport := s.transport()
	defer transport.Close()
	paths := []struct {
		path   string
		status int
	}{{"/a.txt", 200}, {"/0.js", 200}, {"/none", 404}, {"/app/fields", 200}}
	var group sync.WaitGroup
	found := make([]error, atOnce)
	for number := range found {
		group.Go(func() {
			one := paths[number%len(paths)]
			found[number] = s.expect(transport, "GET", one.path, one.status, -1)
		})
	}
	group.Wait()
	return errors.Join(found...)
}

func trailers(s *site) error {
	transport := s.transport()
	defer transport.Close()
	request := s.request("GET", "/app/trailers", nil)
	request.Header.Set("TE", "trailers")
	response, content, err := ask(transport, request)
	if err != nil {
		return err
	}
	if string(content) != "with trailers\n" || response.Trailer.Get("x-sum") != "42" {
		return fmt.Errorf("%q, %v", content, response.Trailer)
	}
	return nil
}

// earlyData resumes a session, and asks with its first bytes.
func earlyData(s *site) error {
	config := s.tls.Clone()
	stored := &sessions{put: make(chan struct{}, 10), cache: tls.NewLRUClientSessionCache(1)}
	config.ClientSessionCache = stored
	first := &http3.Transport{TLSClientConfig: config}
	if err := s.expect(first, "GET", "/a.txt", 200, 7); err != nil {
		return err
	}
	// The ticket may follow the first response.
	select {
	case <-stored.put:
	case <-time.After(timeout):
		return errors.New("no ticket")
	}
	first.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := quic.DialAddrEarly(ctx, s.origin.Host, config, nil)
	if err != nil {
		return err
	}
	defer conn.CloseWithError(0, "")
	client := (&http3.Transport{}).NewClientConn(conn)
	if err := s.expect(client, http3.MethodGet0RTT, "/a.txt", 200, 7); err != nil {
		return err
	}
	<-conn.HandshakeComplete()
	if !conn.ConnectionState().Used0RTT {
		return errors.New("early data was not taken")
	}
	return s.upload(client, []byte("after the handshake"))
}

// sessions says when a ticket has come.
type sessions struct {
	put   chan struct{}
	cache tls.ClientSessionCache
}

func (s *sessions) Get(key string) (*tls.ClientSessionState, bool) {
	return s.cache.Get(key)
}

func (s *sessions) Put(key string, state *tls.ClientSessionState) {
	s.cache.Put(key, state)
	if state != nil {
		s.put <- struct{}{}
	}
}

// socket is a further one of the client's.
func socket() (*quic.Transport, error) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	return &quic.Transport{Conn: conn}, nil
}

// migration goes on from another port, in the middle of a download.
func migration(s *site) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	first, err := socket()
	if err != nil {
		return err
	}
	defer first.Conn.Close()
	address, err := net.ResolveUDPAddr("udp4", s.origin.Host)
	if err != nil {
		return err
	}
	conn, err := first.Dial(ctx, address, s.tls.Clone(), nil)
	if err != nil {
		return err
	}
	defer conn.CloseWithError(0, "")
	client := (&http3.Transport{}).NewClientConn(conn)
	response, err := client.RoundTrip(s.request("GET", "/large.bin", nil))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.CopyN(io.Discard, response.Body, 1_000_000); err != nil {
		return err
	}
	second, err := socket()
	if err != nil {
		return err
	}
	defer second.Conn.Close()
	path, err := conn.AddPath(second)
	if err != nil {
		return err
	}
	if err := path.Probe(ctx); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	if err := path.Switch(); err != nil {
		return err
	}
	rest, err := io.Copy(io.Discard, response.Body)
	if err != nil || rest != largeBytes-1_000_000 {
		return fmt.Errorf("%d bytes after it: %w", rest, err)
	}
	return s.upload(client, make([]byte, 100_000))
}

// webSocket is RFC 9220: one text to and fro.
func webSocket(s *site) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := quic.DialAddr(ctx, s.origin.Host, s.tls.Clone(), nil)
	if err != nil {
		return err
	}
	defer conn.CloseWithError(0, "")
	client := (&http3.Transport{}).NewClientConn(conn)
	select {
	case <-client.ReceivedSettings():
	case <-ctx.Done():
		return errors.New("no SETTINGS")
	}
	if !client.Settings().EnableExtendedConnect {
		return errors.New("extended CONNECT is not offered")
	}
	stream, err := client.OpenRequestStream(ctx)
	if err != nil {
		return err
	}
	request := s.request("CONNECT", "/app/ws", nil)
	request.Proto = "websocket"
	request.Header.Set("Sec-WebSocket-Version", "13")
	if err := stream.SendRequestHeader(request); err != nil {
		return err
	}
	response, err := stream.ReadResponse()
	if err != nil || response.StatusCode != 200 {
		return fmt.Errorf("%v, %w", response, err)
	}
	// FIN and text; masked by zeros, which change nothing.
	if _, err := stream.Write(append([]byte{0x81, 0x85, 0, 0, 0, 0}, "hello"...)); err != nil {
		return err
	}
	answer := make([]byte, 7)
	if _, err := io.ReadFull(stream, answer); err != nil || string(answer) != "\x81\x05hello" {
		return fmt.Errorf("%q, %w", answer, err)
	}
	stream.CancelRead(0x10c)
	return stream.Close()
}

// cancelled leaves a response in the middle, and asks again on the same connection.
func cancelled(s *site) error {
	transport := s.transport()
	defer transport.Close()
	ctx, cancel := context.WithCancel(context.Background())
	response, err := transport.RoundTrip(s.request("GET", "/app/endless", nil).WithContext(ctx))
	if err != nil {
		cancel()
		return err
	}
	_, err = io.CopyN(io.Discard, response.Body, 100_000)
	cancel()
	if _, rest := io.Copy(io.Discard, response.Body); err != nil || rest == nil {
		return fmt.Errorf("%v, and no error after the end", err)
	}
	return s.expect(transport, "GET", "/a.txt", 200, 7)
}
