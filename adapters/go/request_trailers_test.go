package maitred

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// trailing says what a handler sees of a request, before it has read its body, when it has read a byte, and when it has read all.
func trailing(w http.ResponseWriter, r *http.Request) {
	said := fmt.Sprintln(r.ContentLength, r.TransferEncoding, r.Header, r.Trailer)
	n, err := r.Body.Read(make([]byte, 1))
	if n > 0 {
		said += fmt.Sprintln(n, err, r.Trailer)
	}
	rest, err := io.ReadAll(r.Body)
	said += fmt.Sprintln(len(rest), err, r.Trailer)
	n, err = r.Body.Read(make([]byte, 1))
	said += fmt.Sprintln(n, err, len(r.Trailer))
	_, _ = io.WriteString(w, said)
}

func TestTrailersOfRequestsAreThoseOfNetHTTP(t *testing.T) {
	handler := http.HandlerFunc(trailing)
	alone := httptest.NewServer(handler)
	defer alone.Close()
	behind := start(t, handler)
	const lines = "x-sum: 17\r\nx-b: caf\xe9\r\nx-sum: 18\r\n"
	for _, method := range []string{"POST", "GET"} {
		for _, body := range []string{"", "abc", strings.Repeat("z", 100_000)} {
			conn, err := net.Dial("tcp", alone.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(deadline))
			text := method + " / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
			text += "Trailer: X-Sum, x-b\r\n\r\n"
			if body != "" {
				text += fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
			}
			_, _ = io.WriteString(conn, text+"0\r\n"+lines+"\r\n")
			raw, err := io.ReadAll(conn)
			conn.Close()
			if err != nil {
				t.Fatal(err)
			}
			_, wanted := parse(t, string(raw), method)
			// Which is a field of the connection, and Maitred's.
			wanted = strings.Replace(wanted, "Connection:[close]", "", 1)
			a := ask{method: method, target: "/", body: body, flags: flagKeep, trailers: lines}
			if body != "" || method == "POST" {
				a.fields = []string{fmt.Sprint("content-length: ", len(body))}
			}
			_, found, report := behind.get(a)
			if found != wanted || report.flags != flagClean || !strings.Contains(found, "X-Sum:[17 18]") {
				t.Errorf("%s of %d bytes:\nfound  %s\nwanted %s", method, len(body), found, wanted)
			}
			a.trailers = ""
			if _, found, _ = behind.get(a); strings.Contains(found, "X-Sum") {
				t.Errorf("%s of %d bytes has trailers of another request: %s", method, len(body), found)
			}
		}
	}
}

func TestTrailersThatAreNoneAreRefused(t *testing.T) {
	good := []string{"x: \r\n", "x: a: b\r\ny: \t\r\n", strings.Repeat("x: y\r\n", trailersMax)}
	for _, text := range good {
		if fields, err := parseTrailers(text); err != nil || len(fields["X"]) != strings.Count(text, "x: ") {
			t.Errorf("%q: %v, %v", text, fields, err)
		}
	}
	for _, text := range []string{
		"", "x: y", "x: y\n", "x: y\r\n\r\n", "x y\r\n", "x:y\r\n", ": y\r\n", "X: y\r\n", "x x: y\r\n", "x: y\x00\r\n", "x: y\rz\r\n",
		"x: y\nz\r\n", strings.Repeat("x: y\r\n", trailersMax+1),
	} {
		if fields, err := parseTrailers(text); !errors.Is(err, errViolation) {
			t.Errorf("%q: %v, %v", text, fields, err)
		}
	}
	for _, length := range []int{trailerBytesMax, trailerBytesMax + 1} {
		data := appendHeader(nil, length, kindTrailers, flagOptional, 0, 5, 1)
		if _, err := parseHeader(data, payloadBytesMax); errors.Is(err, errViolation) != (length > trailerBytesMax) {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}
