package maitred

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func smallBuffer(t *testing.T, fd int) {
	t.Helper()
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_SNDBUF, 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
}

// As github.com/coder/websocket does it.
func TestTheHeadOfAnUpgradeMayBeWrittenBeforeHijack(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Upgrade", "x")
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("X-Accept", "1")
		w.WriteHeader(http.StatusSwitchingProtocols)
		if r.URL.Path == "/flushed" {
			w.(http.Flusher).Flush()
		}
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		line, _ := buffered.ReadString('\n')
		io.WriteString(conn, strings.ToUpper(line))
	}))
	fields := []string{"upgrade: x", "connection: upgrade"}
	for _, path := range []string{"/", "/flushed"} {
		for _, flags := range []byte{flagKeep, 0} {
			c := s.begin(ask{target: path, flags: flags | flagMayDetach, fields: fields})
			if h, _ := s.frame(); h.kind != kindDetach {
				t.Fatalf("frame of kind %d", h.kind)
			}
			reader := bufio.NewReader(c)
			response, err := http.ReadResponse(reader, nil)
			if err != nil || response.StatusCode != 101 || response.Header.Get("Upgrade") != "x" ||
				fmt.Sprint(response.Header["Connection"]) != "[Upgrade]" || response.Header.Get("X-Accept") != "1" {
				t.Fatalf("%+v, %v", response, err)
			}
			io.WriteString(c, "hello\n")
			if rest, err := io.ReadAll(reader); string(rest) != "HELLO\n" || err != nil {
				t.Errorf("%q, %v", rest, err)
			}
		}
	}
	if text := s.log.String(); text != "" {
		t.Errorf("logged %q", text)
	}
}

func TestAnUpgradeThatNobodyTakesOverIsA500(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Upgrade", "x")
		w.WriteHeader(http.StatusSwitchingProtocols)
		if r.URL.Path == "/hijack" {
			if _, _, err := w.(http.Hijacker).Hijack(); err == nil {
				t.Error("a request without an upgrade can be hijacked")
			}
		}
	}))
	for _, a := range []ask{
		{target: "/", flags: flagKeep | flagMayDetach},
		{target: "/", flags: flagKeep},
		{target: "/hijack", flags: flagKeep},
	} {
		response, _, f := s.get(a)
		if response.StatusCode != 500 || response.Header.Get("Upgrade") != "" || f.flags != flagClean {
			t.Errorf("%+v: %+v, DONE says %+v", a, response, f.done)
		}
	}
}

// A head that cannot be sent does not become half an upgrade.
func TestAnUpgradeWithAnInvalidFieldIsNotTakenOver(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-A", "a\nb")
		w.WriteHeader(http.StatusSwitchingProtocols)
		if _, _, err := w.(http.Hijacker).Hijack(); err == nil {
			t.Error("taken over")
		}
	}))
	if response, _, f := s.get(ask{target: "/", flags: flagKeep | flagMayDetach}); response.StatusCode != 500 || f.flags != flagClean {
		t.Errorf("%+v, DONE says %+v", response, f.done)
	}
}

// controller is what http.ResponseController (Go 1.20) finds by these methods.
type controller interface {
	http.Flusher
	http.Hijacker
	FlushError() error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	EnableFullDuplex() error
}

func TestWhatAResponseControllerDoesIsThere(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := w.(controller)
		for _, err := range []error{
			c.EnableFullDuplex(), c.SetReadDeadline(time.Now().Add(time.Hour)), c.SetWriteDeadline(time.Now().Add(time.Hour)),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		io.WriteString(w, "one ")
		if err := c.FlushError(); err != nil {
			t.Error(err)
		}
		// With full duplex, the body is read behind the beginning of the response.
		data, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v", data, err)
	}))
	a := ask{method: "POST", target: "/", flags: flagKeep, body: "two", fields: []string{"content-length: 3"}}
	if _, body, f := s.get(a); body != "one two <nil>" || f.flags != flagClean {
		t.Errorf("%q, DONE says %+v", body, f.done)
	}
}

// net/http fails such a write even if the socket had room.
func TestAWriteAfterItsDeadlineFails(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := w.(controller)
		io.WriteString(w, "one")
		if err := c.FlushError(); err != nil {
			t.Error(err)
		}
		if err := c.SetWriteDeadline(time.Unix(1, 0)); err != nil {
			t.Error(err)
		}
		io.WriteString(w, "two")
		if err := c.FlushError(); !os.IsTimeout(err) || r.Context().Err() == nil {
			t.Errorf("%v; the context: %v", err, r.Context().Err())
		}
	}))
	if raw, f := s.exchange(ask{target: "/", flags: flagKeep}); f.flags != 0 || f.status != 200 || strings.Contains(raw, "two") {
		t.Errorf("%q, DONE says %+v", raw, f.done)
	}
}

func TestCloseNotifyIsSilentWhenTheHandlerReturns(t *testing.T) {
	kept := make(chan (<-chan bool), 1)
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := w.(http.CloseNotifier) //nolint:staticcheck // frameworks use it
		if n.CloseNotify() != n.CloseNotify() {
			t.Error("two channels")
		}
		kept <- n.CloseNotify()
	}))
	s.exchange(ask{target: "/", flags: flagKeep})
	if err := s.end(); err != nil {
		t.Error(err)
	}
	select {
	case <-<-kept:
		t.Error("told that the client has gone")
	default:
	}
}

// A stuck process is known by this; one whose handlers only compute is not stuck.
func TestPingIsAnsweredWhileEveryProcessorIsBusy(t *testing.T) {
	var stop atomic.Bool
	var running atomic.Int32
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		if r.URL.Path == "/wait" {
			<-r.Context().Done()
			return
		}
		for !stop.Load() {
		}
	}))
	defer stop.Store(true)
	busy, waiting := 2*runtime.GOMAXPROCS(0), DefaultCapacity
	var batch []ask
	for i := 0; i < busy; i++ {
		batch = append(batch, ask{target: "/busy", flags: flagKeep})
	}
	for i := 0; i < waiting; i++ {
		batch = append(batch, ask{target: "/wait", flags: flagKeep})
	}
	for _, a := range batch {
		s.begin(a)
	}
	for end := time.Now().Add(deadline); int(running.Load()) < busy+waiting; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d of %d run", running.Load(), busy+waiting)
		}
	}
	s.send(appendHeader(nil, 0, kindPing, 0, 0, 0, 77))
	if h, _ := s.frame(); h.kind != kindPong || h.request != 77 {
		t.Fatalf("a frame of kind %d", h.kind)
	}
	for i := busy; i < busy+waiting; i++ {
		s.send(appendHeader(nil, 0, kindCancel, 0, 0, uint32(i+1), uint32(i+1)))
	}
	for i := 0; i < waiting; i++ {
		if f := s.done(); f.flags != 0 || f.status != 0 {
			t.Errorf("DONE says %+v", f.done)
		}
	}
}
