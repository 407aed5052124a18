package maitred

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

var noContext = context.Background()

func startServerLog() *log.Logger { return log.New(io.Discard, "", 0) }

func TestPanicsAreAnsweredOrBreakOff(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Secret", "1")
		io.WriteString(w, "begun")
		if strings.Contains(r.URL.Path, "late") {
			w.(http.Flusher).Flush()
		}
		switch {
		case strings.Contains(r.URL.Path, "abort"):
			panic(http.ErrAbortHandler)
		case strings.Contains(r.URL.Path, "exit"):
			runtime.Goexit()
		}
		panic("reason")
	}))
	for _, c := range []struct {
		target string
		status int
		flags  byte
		logged bool
	}{
		{"/", 500, flagClean, true},
		{"/late", 200, 0, true},
		{"/abort", 0, 0, false},
		{"/late/abort", 200, 0, false},
		{"/exit", 0, 0, false},
		{"/late/exit", 200, 0, false},
	} {
		before := len(s.log.String())
		raw, f := s.exchange(ask{target: c.target, flags: flagKeep})
		if f.status != c.status || f.flags != c.flags {
			t.Errorf("%s: DONE says %d with flags %d", c.target, f.status, f.flags)
		}
		if text := s.log.String()[before:]; strings.Contains(text, "reason") != c.logged {
			t.Errorf("%s: logged %q", c.target, text)
		}
		if c.status == 500 && (strings.Contains(raw, "Secret") || strings.Contains(raw, "begun") || strings.Contains(raw, "reason")) {
			t.Errorf("%s: answered %q", c.target, raw)
		}
		if strings.HasSuffix(raw, "0\r\n\r\n") {
			t.Errorf("%s: the response looks complete: %q", c.target, raw)
		}
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeSentBecomes500(t *testing.T) {
	for _, set := range []func(http.Header){
		func(h http.Header) { h.Set("X-A", "a\nb") },
		func(h http.Header) { h.Set("X-A", "a\x00b") },
		func(h http.Header) { h["a b"] = []string{"1"} },
		func(h http.Header) { h[""] = []string{"1"} },
	} {
		set := set
		s := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			set(w.Header())
			if n, err := io.WriteString(w, "dropped"); n != 7 || err != nil {
				t.Errorf("wrote %d, %v", n, err)
			}
		}))
		response, body, f := s.get(ask{target: "/", flags: flagKeep})
		if response.StatusCode != 500 || f.flags != flagClean || strings.Contains(body, "dropped") {
			t.Errorf("%d %q, flags %d", response.StatusCode, body, f.flags)
		}
		if !strings.Contains(s.log.String(), "becomes 500") {
			t.Errorf("logged %q", s.log.String())
		}
	}
}

// net/http sends what it has just called invalid.
func TestAnInvalidContentLengthIsLeftOut(t *testing.T) {
	for _, length := range []string{"-1", "x", "1e3"} {
		length := length
		s := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", length)
			io.WriteString(w, "12345")
		}))
		response, body, f := s.get(ask{target: "/", flags: flagKeep})
		if response.ContentLength != 5 || body != "12345" || f.flags != flagClean {
			t.Errorf("%q: %d, %q", length, response.ContentLength, body)
		}
	}
}

func TestHijackNeedsAnUpgrade(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _, err := w.(http.Hijacker).Hijack()
		fmt.Fprint(w, errors.Is(err, http.ErrNotSupported))
	}))
	if _, body, _ := s.get(ask{target: "/", flags: flagKeep}); body != "true" {
		t.Error(body)
	}
}

func TestHijackedConnectionsAreTheHandlers(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if _, err := w.Write([]byte("x")); err != http.ErrHijacked {
			t.Errorf("Write after Hijack: %v", err)
		}
		if local, remote := conn.LocalAddr().String(), conn.RemoteAddr().String(); local != "127.0.0.1:8080" || remote != "192.0.2.7:4711" {
			t.Errorf("%s, %s", local, remote)
		}
		early := buffered.Reader.Buffered()
		line, _ := buffered.ReadString('\n')
		fmt.Fprintf(buffered, "%d %s", early, line)
		buffered.Flush()
	}))
	fields := []string{"upgrade: x", "connection: upgrade"}
	c := s.begin(ask{target: "/", flags: flagKeep | flagMayDetach, body: "ear", fields: fields})
	if h, payload := s.frame(); h.kind != kindDetach || string(payload) != "e\x00\x00\x00" {
		t.Fatalf("frame of kind %d: %q", h.kind, payload)
	}
	io.WriteString(c, "ly\n")
	if data, err := io.ReadAll(c); string(data) != "3 early\n" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

func TestCancelEndsTheContext(t *testing.T) {
	began := make(chan struct{})
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		notified := w.(http.CloseNotifier).CloseNotify() //nolint:staticcheck // frameworks use it
		close(began)
		<-r.Context().Done()
		<-notified
	}))
	c := s.begin(ask{target: "/", flags: flagKeep})
	<-began
	s.send(appendHeader(nil, 0, kindCancel, 0, 0, c.number, c.number))
	if f := s.done(); f.status != 0 || f.flags != 0 {
		t.Errorf("DONE says %d with flags %d", f.status, f.flags)
	}
}

func TestAHandlerThatAnswersAfterCancelIsHeard(t *testing.T) {
	began := make(chan struct{})
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		io.WriteString(w, "all the same")
	}))
	c := s.begin(ask{target: "/", flags: flagKeep})
	<-began
	s.send(appendHeader(nil, 0, kindCancel, 0, 0, c.number, c.number))
	f := s.done()
	s.forget(c)
	data, _ := io.ReadAll(c)
	if f.flags != flagClean || !strings.HasSuffix(string(data), "all the same") {
		t.Errorf("flags %d, %q", f.flags, data)
	}
}

func TestWritesWaitForTheClientUntilTheDeadline(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(interface{ SetWriteDeadline(time.Time) error }).SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		var err error
		for err == nil {
			_, err = w.Write(make([]byte, 100_000))
		}
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || r.Context().Err() == nil {
			t.Errorf("%v; the context: %v", err, r.Context().Err())
		}
	}))
	c := s.begin(ask{target: "/", flags: flagKeep})
	f := s.done()
	if f.flags != 0 || f.status != 200 {
		t.Errorf("DONE says %d with flags %d", f.status, f.flags)
	}
	s.forget(c)
	if data, err := io.ReadAll(c); err != nil || strings.HasSuffix(string(data), "0\r\n\r\n") || f.tail != nil {
		t.Errorf("the response looks complete: %d bytes, %v, %d more", len(data), err, len(f.tail))
	}
}

// A batch of requests that came together is reported together, or nearly so: that is what makes handoff cheap.
func TestReportsLeaveTogether(t *testing.T) {
	const count = 100
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") }))
	var batch []byte
	var far []int
	for i := uint32(0); i < count; i++ {
		near, other := pair(t)
		defer closeAll([]int{near, other})
		batch = append(batch, ask{target: "/", flags: flagKeep}.frame(i, i, 1)...)
		far = append(far, other)
	}
	s.send(batch, far...)
	messages := 0
	for bytes := 0; bytes < count*(headerBytes+16); messages++ {
		bytes += s.receive()
	}
	if messages > count/4 {
		t.Errorf("%d reports in %d messages", count, messages)
	}
}

// One report that waits for a request which takes long leaves all the same.
func TestAReportDoesNotWaitForALongRequest(t *testing.T) {
	release := make(chan struct{})
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			<-release
		}
	}))
	near, far := pair(t)
	defer closeAll([]int{near, far})
	near2, far2 := pair(t)
	defer closeAll([]int{near2, far2})
	batch := append(ask{target: "/", flags: flagKeep}.frame(1, 1, 1), ask{target: "/long", flags: flagKeep}.frame(2, 2, 1)...)
	s.send(batch, far, far2)
	if f := s.done(); f.request != 1 {
		t.Errorf("request %d was reported first", f.request)
	}
	close(release)
	s.done()
}

func TestMountIsTakenFromThePath(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s %s", Mount(r), r.URL.Path, r.URL.RawPath, r.RequestURI)
	}))
	for target, wanted := range map[string]string{
		"/app/x%2Fy?q": "/app /x/y /x%2Fy /app/x%2Fy?q",
		"/app":         "/app /  /app",
		"/application": "/app /application  /application",
	} {
		meta := "remote=[::1]:7\nlocal=[::1]:80\nscheme=https\nmount=/app\n"
		if _, body, _ := s.get(ask{target: target, flags: flagKeep, meta: meta}); body != wanted {
			t.Errorf("%s: found %q, wanted %q", target, body, wanted)
		}
	}
}

func TestAUserIsTheOneThatMaitredNames(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// What middleware does to a request.
		r = r.WithContext(context.WithValue(r.Context(), "key", "value"))
		name, scheme, ok := User(r)
		fmt.Fprintf(w, "%q %q %t", name, scheme, ok)
	}))
	lies := []string{"remote-user: root", "auth-type: x", "user: root"}
	for _, c := range []struct{ says, wanted string }{
		{"user=änn=b c\nauth_type=Basic\n", `"änn=b c" "Basic" true`},
		{"", `"" "" false`},
		{"user=bob\n", `"bob" "" true`},
		{"user=\nauth_type=Basic\n", `"" "" false`},
	} {
		meta := "remote=[::1]:7\nlocal=[::1]:80\nscheme=http\n" + c.says + "queue_us=1\n"
		if _, body, _ := s.get(ask{target: "/", flags: flagKeep, meta: meta, fields: lies}); body != c.wanted {
			t.Errorf("%q: found %s, wanted %s", c.says, body, c.wanted)
		}
	}
	alone, _ := http.NewRequest("GET", "/", nil)
	if name, scheme, ok := User(alone); name != "" || scheme != "" || ok {
		t.Errorf("without Maitred: %q %q %t", name, scheme, ok)
	}
}

func TestNoServerIsNamedWhereNoneIsWanted(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/own" {
			w.Header().Set("Server", "own")
		}
	}))
	for _, c := range []struct{ target, says, wanted string }{
		{"/", "server_header=0\n", ""},
		{"/", "user=server_header=0\nauth_type=Basic\n", "maitred"},
		{"/own", "server_header=0\n", "own"},
		{"/", "", "maitred"},
	} {
		meta := "remote=[::1]:7\nlocal=[::1]:80\nscheme=http\n" + c.says + "queue_us=1\n"
		response, _, _ := s.get(ask{target: c.target, flags: flagKeep, meta: meta})
		if found := response.Header.Get("Server"); found != c.wanted {
			t.Errorf("%s %q: found %q, wanted %q", c.target, c.says, found, c.wanted)
		}
	}
}

func TestTheContextKnowsWhatNetHTTPPutsThere(t *testing.T) {
	type key struct{}
	made := &http.Server{BaseContext: func(net.Listener) context.Context { return context.WithValue(noContext, key{}, "base") }}
	made.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		fmt.Fprint(w, ctx.Value(key{}), " ", ctx.Value(http.LocalAddrContextKey), " ", ctx.Value(http.ServerContextKey) == made,
			" ", r.RemoteAddr, " ", r.TLS != nil && r.TLS.ServerName == "example.com")
	})
	s := startServer(t, &Server{HTTP: made})
	meta := "remote=[2001:db8::1]:7\nlocal=[::1]:80\nscheme=https\nmount=\n"
	_, body, _ := s.get(ask{target: "/", flags: flagKeep, meta: meta})
	if body != "base [::1]:80 true [2001:db8::1]:7 true" {
		t.Error(body)
	}
}

func TestShutdownOfTheHTTPServerEndsServe(t *testing.T) {
	var once sync.Once
	told := make(chan struct{})
	made := &http.Server{}
	made.RegisterOnShutdown(func() { once.Do(func() { close(told) }) })
	made.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "last") })
	s := startServer(t, &Server{HTTP: made, Capacity: 7})
	if _, body, _ := s.get(ask{target: "/", flags: flagKeep}); body != "last" {
		t.Error(body)
	}
	if err := made.Shutdown(noContext); err != nil {
		t.Error(err)
	}
	if err := s.returned(); err != nil {
		t.Error(err)
	}
	<-told
}

func TestViolationsAreErrors(t *testing.T) {
	s := start(t, http.NotFoundHandler())
	s.send(appendHeader(nil, 0, 33, 0, 0, 0, 0))
	if err := s.returned(); !errors.Is(err, errViolation) || !strings.Contains(err.Error(), "kind 33") {
		t.Error(err)
	}
}

func TestServeNeedsMaitred(t *testing.T) {
	t.Setenv(ChannelVariable, "")
	for _, value := range []string{"", "x", "-1", "77777", "1.5"} {
		t.Setenv(ChannelVariable, value)
		if err := Serve(nil); err == nil || !strings.Contains(err.Error(), ChannelVariable+"="+value+" ") {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestCapacityHasBounds(t *testing.T) {
	for _, capacity := range []int{-1, capacityMax + 1} {
		ours, theirs := pair(t)
		defer closeAll([]int{ours})
		if err := (&Server{Capacity: capacity}).serve(theirs, noDescriptor, false); err == nil || !strings.Contains(err.Error(), "Capacity") {
			t.Errorf("%d: %v", capacity, err)
		}
	}
}

func TestTheHandlersWriterIsDeadAfterwards(t *testing.T) {
	kept := make(chan http.ResponseWriter, 1)
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { kept <- w }))
	s.exchange(ask{target: "/", flags: flagKeep})
	if _, err := (<-kept).Write([]byte("late")); err == nil {
		t.Error("a write after the handler has returned succeeds")
	}
}
