package frameworks

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"

	"maitred/maitredtest"
)

func init() {
	// coder/websocket writes its 101 by WriteHeader, and hijacks behind that; gorilla/websocket hijacks first.
	sites["coder/websocket"] = func(string) http.Handler { return http.HandlerFunc(coderEcho) }
	sites["gorilla/websocket"] = func(string) http.Handler { return http.HandlerFunc(gorillaEcho) }
	// A program that passes upgrades on to another one.
	sites["ReverseProxy"] = func(string) http.Handler {
		backend := httptest.NewServer(http.HandlerFunc(coderEcho))
		address, err := url.Parse(backend.URL)
		if err != nil {
			panic(err)
		}
		return httputil.NewSingleHostReverseProxy(address)
	}
}

const messageBytesMax = 1 << 20

func coderEcho(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"echo"}})
	if err != nil {
		return
	}
	defer c.CloseNow()
	c.SetReadLimit(messageBytesMax)
	for {
		kind, data, err := c.Read(r.Context())
		if err != nil || c.Write(r.Context(), kind, data) != nil {
			return
		}
	}
}

func gorillaEcho(w http.ResponseWriter, r *http.Request) {
	upgrader := gorilla.Upgrader{Subprotocols: []string{"echo"}}
	c, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer c.Close()
	for {
		kind, data, err := c.ReadMessage()
		if err != nil || c.WriteMessage(kind, data) != nil {
			return
		}
	}
}

// everywhere runs a test with a site by itself, and behind Maitred with each transport.
func everywhere(t *testing.T, site, file string, test func(t *testing.T, base string)) {
	t.Run("alone", func(t *testing.T) {
		alone := httptest.NewServer(sites[site](file))
		defer alone.Close()
		test(t, alone.URL)
	})
	for _, transport := range []string{"direct", "relay"} {
		t.Run(transport, func(t *testing.T) { test(t, startOver(t, site, file, transport)) })
	}
}

func TestWebSocketsOfPackagesThatPeopleHave(t *testing.T) {
	for _, site := range []string{"coder/websocket", "gorilla/websocket", "ReverseProxy"} {
		t.Run(site, func(t *testing.T) { everywhere(t, site, "", talk) })
	}
}

// talk is a conversation; the client is coder/websocket's.
func talk(t *testing.T, base string) {
	ctx, cancel := context.WithTimeout(context.Background(), maitredtest.Deadline)
	defer cancel()
	options := &websocket.DialOptions{Subprotocols: []string{"echo"}}
	c, response, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(base, "http"), options)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	c.SetReadLimit(messageBytesMax)
	if response.StatusCode != 101 || c.Subprotocol() != "echo" {
		t.Errorf("%+v, subprotocol %q", response, c.Subprotocol())
	}
	for _, text := range []string{"", "hello", strings.Repeat("grün ", 20_000)} {
		if err := c.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		kind, data, err := c.Read(ctx)
		if kind != websocket.MessageText || string(data) != text || err != nil {
			t.Fatalf("%d bytes came back of %d, %v", len(data), len(text), err)
		}
	}
	// A Pong is noticed during a read only. That read ends before Close, which reads for itself: beside another reader
	// the client (1.8.12) answers the server's Close frame with a second one, and may take the reset for the answer.
	read := make(chan error, 1)
	go func() {
		_, _, err := c.Read(ctx)
		read <- err
	}()
	if err := c.Ping(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Write(ctx, websocket.MessageText, []byte("the last one")); err != nil {
		t.Error(err)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
	if err := c.Close(websocket.StatusNormalClosure, "bye"); err != nil {
		t.Error(err)
	}
}

// A client that asks for no upgrade gets the name of the one that is needed (RFC 9110, section 15.5.22).
func TestAnUpgradeThatIsRequiredIsNamed(t *testing.T) {
	everywhere(t, "coder/websocket", "", func(t *testing.T, base string) {
		response, err := http.Get(base)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		h := response.Header
		if response.StatusCode != 426 || h.Get("Upgrade") != "websocket" || !strings.EqualFold(h.Get("Connection"), "upgrade") {
			t.Errorf("%s, %v", response.Status, h)
		}
	})
}
