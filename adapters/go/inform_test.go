package maitred

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

const (
	metaBefore    = "remote=192.0.2.7:4711\nlocal=127.0.0.1:8080\nscheme=http\n"
	metaHints     = metaBefore + "early_hints=1\n"
	hintsAndHello = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nX-A: 1\r\n\r\nHTTP/1.1 200 OK\r\n"
)

// hints says 103 with fields of which some may not stand there, and then answers.
func hints(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Link", "</a.css>; rel=preload")
	w.Header().Set("X-A", "1")
	w.Header().Set("Content-Length", "5")
	w.Header().Set("Connection", "close, x-b")
	w.Header().Set("Keep-Alive", "timeout=5")
	w.Header().Set("X-B", "2")
	w.WriteHeader(100)
	w.WriteHeader(103)
	w.Header().Del("Link")
	io.WriteString(w, "hello")
}

func TestEarlyHintsGoToClientsThatMayHaveThem(t *testing.T) {
	s := start(t, http.HandlerFunc(hints))
	raw, f := s.exchange(ask{target: "/", flags: flagKeep, meta: metaHints})
	if !strings.HasPrefix(raw, hintsAndHello) || !strings.HasSuffix(raw, "\r\n\r\nhello") || strings.Count(raw, "HTTP/1.1") != 2 {
		t.Errorf("%q", raw)
	}
	if f.flags != flagClean || f.status != 200 || f.bodyBytes != 5 {
		t.Errorf("DONE says %+v", f.done)
	}
	for name, a := range map[string]ask{
		"not offered": {meta: metaBefore},
		"HTTP/1.0":    {meta: metaHints, flags: flagHTTP10},
	} {
		a.target = "/"
		if raw, f := s.exchange(a); !strings.HasPrefix(raw, "HTTP/1.1 200 OK\r\n") || f.status != 200 {
			t.Errorf("%s: %q", name, raw)
		}
	}
}

func TestEarlyHintsAreBounded(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", strings.Repeat("l", informBytesMax))
		w.WriteHeader(103)
		w.Header().Set("Link", "l\n")
		w.WriteHeader(103)
		w.Header().Set("Link", "l")
		for i := 0; i < informMax+1; i++ {
			w.WriteHeader(103)
		}
	}))
	raw, f := s.exchange(ask{target: "/", flags: flagKeep, meta: metaHints})
	count := strings.Count(raw, "103 Early Hints\r\nLink: l\r\n\r\n")
	if count != informMax || f.flags != flagClean || f.status != 200 {
		t.Errorf("%d informational responses, then DONE says %+v", count, f.done)
	}
}

// What fails behind an informational response is answered as if there were none.
func TestAfterEarlyHintsTheResponseIsStillOpen(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(103)
		if r.URL.Path == "/abort" {
			panic(http.ErrAbortHandler)
		}
		panic("reason")
	}))
	raw, f := s.exchange(ask{target: "/", flags: flagKeep, meta: metaHints})
	if !strings.HasPrefix(raw, "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 500 ") || f.flags != flagClean {
		t.Errorf("%q, DONE says %+v", raw, f.done)
	}
	if raw, f := s.exchange(ask{target: "/abort", flags: flagKeep, meta: metaHints}); f.status != 0 || f.flags != 0 {
		t.Errorf("%q, DONE says %+v", raw, f.done)
	}
}

// A client that takes nothing has a part of an informational response: nothing may follow that.
func TestAnInformationalResponseInPartEndsTheConnection(t *testing.T) {
	full := make(chan struct{})
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", strings.Repeat("l", 15_000))
		for i := 0; i < informMax; i++ {
			if i == 0 {
				close(full)
			}
			w.WriteHeader(103)
		}
		if r.Context().Err() == nil {
			t.Error("the handler is not told")
		}
		if _, err := w.Write([]byte("x")); err == nil {
			t.Error("a write behind it succeeds")
		}
	}))
	near, far := pair(t)
	defer closeAll([]int{near, far})
	smallBuffer(t, far)
	s.send(ask{target: "/", flags: flagKeep, meta: metaHints}.frame(1, 1, 1), far)
	<-full
	s.send(appendHeader(nil, 0, kindCancel, 0, 0, 1, 1))
	if f := s.done(); f.flags != 0 || f.status != 103 {
		t.Errorf("DONE says %+v", f.done)
	}
}

func TestFieldsOfOneHopAreDropped(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"Keep-Alive", "Proxy-Connection", "TE", "Upgrade", "Transfer-Encoding", "X-Named", "X-Stays"} {
			w.Header().Set(name, "1")
		}
		w.Header()["Connection"] = []string{"keep-alive, x-named", "close"}
		fmt.Fprint(w, "hop")
	}))
	response, body, f := s.get(ask{target: "/", flags: flagKeep})
	if response.StatusCode != 200 || body != "hop" || f.flags != flagClean || response.Header.Get("X-Stays") != "1" {
		t.Errorf("%+v %q, DONE says %+v", response, body, f.done)
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "TE", "Upgrade", "X-Named"} {
		if values := response.Header.Values(name); values != nil {
			t.Errorf("%s: %q", name, values)
		}
	}
	if text := s.log.String(); text != "" {
		t.Errorf("the error log says %q", text)
	}
}

func TestUpgradeStaysInA426(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		http.Error(w, "WebSocket only", http.StatusUpgradeRequired)
	}))
	for flags, connection := range map[byte]string{flagKeep: "Upgrade", 0: "close, upgrade"} {
		raw, f := s.exchange(ask{target: "/", flags: flags})
		if !strings.HasPrefix(raw, "HTTP/1.1 426 Upgrade Required\r\n") || !strings.HasSuffix(raw, "\r\n\r\nWebSocket only\n") ||
			!strings.Contains(raw, "\r\nUpgrade: websocket\r\n") || strings.Count(raw, "Connection: ") != 1 ||
			!strings.Contains(raw, "\r\nConnection: "+connection+"\r\n") || f.flags != flagClean {
			t.Errorf("%q, DONE says %+v", raw, f.done)
		}
	}
}
