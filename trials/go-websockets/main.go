// A Go server as its users write it: WebSockets by both of the usual packages, WebDAV, files, a stream of events.
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
	"time"

	coder "github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"
	"golang.org/x/net/webdav"
	"maitred"
)

func main() {
	directory := os.Getenv("HOME") + "/files"
	if err := os.MkdirAll(directory, 0o755); err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/coder", byCoder)
	mux.HandleFunc("/gorilla", byGorilla)
	mux.Handle("/dav/", &webdav.Handler{Prefix: "/dav", FileSystem: webdav.Dir(directory), LockSystem: webdav.NewMemLS()})
	mux.Handle("/files/", http.StripPrefix("/files/", http.FileServer(http.Dir(directory))))
	mux.HandleFunc("/upload", upload)
	mux.HandleFunc("/said", said)
	rooms := &room{listeners: map[chan string]bool{}}
	mux.HandleFunc("/events", rooms.events)
	mux.HandleFunc("/say", rooms.say)
	if err := maitred.ListenAndServe(os.Args[1], mux); err != nil {
		log.Fatal(err)
	}
}

func byCoder(w http.ResponseWriter, r *http.Request) {
	socket, err := coder.Accept(w, r, &coder.AcceptOptions{Subprotocols: []string{"echo"}, InsecureSkipVerify: true})
	if err != nil {
		return
	}
	socket.SetReadLimit(4 << 20)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		kind, data, err := socket.Read(ctx)
		if err != nil || string(data) == "close" {
			_ = socket.Close(4000, "as you wish")
			return
		}
		if socket.Write(ctx, kind, data) != nil {
			return
		}
	}
}

func byGorilla(w http.ResponseWriter, r *http.Request) {
	upgrader := gorilla.Upgrader{Subprotocols: []string{"echo"}, EnableCompression: true, CheckOrigin: func(*http.Request) bool { return true }}
	socket, err := upgrader.Upgrade(w, r, http.Header{"X-Upgraded": {"yes"}})
	if err != nil {
		return
	}
	defer socket.Close()
	for {
		kind, data, err := socket.ReadMessage()
		if err != nil {
			return
		}
		if string(data) == "close" {
			message := gorilla.FormatCloseMessage(4000, "as you wish")
			_ = socket.WriteControl(gorilla.CloseMessage, message, time.Now().Add(time.Minute))
			return
		}
		if socket.WriteMessage(kind, data) != nil {
			return
		}
	}
}

func upload(w http.ResponseWriter, r *http.Request) {
	hash := sha256.New()
	length, err := io.Copy(hash, http.MaxBytesReader(w, r.Body, 50_000_000))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	fmt.Fprintf(w, "%d %x\n", length, hash.Sum(nil))
}

// said is what the server knows of a request.
func said(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s %s tls=%v\n", r.Method, r.URL, r.Host, r.TLS != nil)
}

// A room has the listeners, and sends them what is said.
type room struct {
	lock      sync.Mutex
	listeners map[chan string]bool
}

func (all *room) events(w http.ResponseWriter, r *http.Request) {
	mine := make(chan string, 16)
	all.lock.Lock()
	all.listeners[mine] = true
	all.lock.Unlock()
	defer func() {
		all.lock.Lock()
		defer all.lock.Unlock()
		delete(all.listeners, mine)
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Connection", "keep-alive")
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{})
	_ = control.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case text := <-mine:
			fmt.Fprintf(w, "data: %s\n\n", text)
			_ = control.Flush()
		}
	}
}

func (all *room) say(w http.ResponseWriter, r *http.Request) {
	all.lock.Lock()
	defer all.lock.Unlock()
	for each := range all.listeners {
		each <- r.FormValue("text")
	}
	fmt.Fprintln(w, len(all.listeners))
}
