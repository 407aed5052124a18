// The reference application of the conformance kit (adapters/conformance/README.md).
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"maitred"
	"maitred/internal/websocket"
)

func main() {
	log.SetFlags(0)
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: http.HandlerFunc(serve)}
	if len(os.Args) > 1 {
		server.Addr = os.Args[1]
	}
	server.RegisterOnShutdown(websocket.End)
	if err := (&maitred.Server{HTTP: server}).ListenAndServe(); err != nil {
		log.Fatal(err)
	}
}

// route is a handler and how many numbers it takes from the path.
type route struct {
	numbers int
	serve   func(w http.ResponseWriter, r *http.Request, numbers []int)
}

var routes = map[string]route{
	"echo":       {0, echo},
	"user":       {0, user},
	"bytes":      {1, someBytes},
	"chunks":     {2, chunks},
	"status":     {1, status},
	"error":      {0, fail},
	"error-late": {0, failLate},
	"short":      {0, short},
	"long":       {0, long},
	"slow":       {1, slow},
	"inject":     {0, inject},
	"hop":        {0, hop},
	"file":       {1, file},
	"sendfile":   {1, sendFile},
	"sum":        {0, sum},
	"wait":       {0, wait},
	"426":        {0, upgradeRequired},

	"early-hints":   {0, earlyHints},
	"trailers":      {0, trailers},
	"sendfile-path": {0, sendFilePath},

	"request-trailers": {0, requestTrailers},

	"ws":         {0, func(w http.ResponseWriter, r *http.Request, _ []int) { websocket.Echo(w, r) }},
	"ws-refused": {0, refuse},
}

func serve(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/")
	found, known := routes[parts[1]]
	if !known || len(parts)-2 < found.numbers {
		http.NotFound(w, r)
		return
	}
	numbers := make([]int, found.numbers)
	for i := range numbers {
		number, err := strconv.Atoi(parts[2+i])
		if err != nil || number < 0 {
			http.NotFound(w, r)
			return
		}
		numbers[i] = number
	}
	found.serve(w, r, numbers)
}

func text(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain")
}

func spaced(address string) string {
	host, port, _ := net.SplitHostPort(address)
	return host + " " + port
}

func echo(w http.ResponseWriter, r *http.Request, _ []int) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	headers := map[string]string{"host": r.Host}
	for name, values := range r.Header {
		joint := ", "
		if name == "Cookie" {
			joint = "; "
		}
		headers[strings.ToLower(name)] = latin1(strings.Join(values, joint))
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	writeJSON(w, map[string]any{
		"method": r.Method, "mount": maitred.Mount(r), "path": latin1(r.URL.Path), "query": r.URL.RawQuery,
		"version": r.Proto, "scheme": scheme, "remote": spaced(r.RemoteAddr), "local": spaced(local.String()),
		"headers": headers, "body": body,
	})
}

func user(w http.ResponseWriter, r *http.Request, _ []int) {
	text(w)
	if name, scheme, ok := maitred.User(r); ok {
		_, _ = io.WriteString(w, name+" "+scheme)
	}
}

func someBytes(w http.ResponseWriter, _ *http.Request, numbers []int) {
	text(w)
	w.Header().Set("Content-Length", strconv.Itoa(numbers[0]))
	_, _ = w.Write(bytes.Repeat([]byte("x"), numbers[0]))
}

func chunks(w http.ResponseWriter, _ *http.Request, numbers []int) {
	text(w)
	piece := bytes.Repeat([]byte("y"), numbers[1])
	for i := 0; i < numbers[0]; i++ {
		if _, err := w.Write(piece); err != nil {
			return
		}
		w.(http.Flusher).Flush()
	}
}

func status(w http.ResponseWriter, _ *http.Request, numbers []int) {
	w.WriteHeader(numbers[0])
}

func fail(http.ResponseWriter, *http.Request, []int) {
	panic("asked for by /error")
}

func failLate(w http.ResponseWriter, _ *http.Request, _ []int) {
	text(w)
	_, _ = io.WriteString(w, "first")
	w.(http.Flusher).Flush()
	panic("asked for by /error-late")
}

func short(w http.ResponseWriter, _ *http.Request, _ []int) {
	w.Header().Set("Content-Length", "10")
	_, _ = io.WriteString(w, "12345")
}

func long(w http.ResponseWriter, _ *http.Request, _ []int) {
	w.Header().Set("Content-Length", "5")
	_, _ = io.WriteString(w, "1234567890")
}

func slow(w http.ResponseWriter, _ *http.Request, numbers []int) {
	time.Sleep(time.Duration(numbers[0]) * time.Millisecond)
	text(w)
	_, _ = io.WriteString(w, "slow")
}

func inject(w http.ResponseWriter, _ *http.Request, _ []int) {
	w.Header().Set("X-Value", "a\r\nInjected: yes")
	_, _ = io.WriteString(w, "inject")
}

func hop(w http.ResponseWriter, _ *http.Request, _ []int) {
	text(w)
	w.Header().Set("Connection", "keep-alive")
	w.Header().Set("Keep-Alive", "timeout=5")
	w.Header().Set("Proxy-Connection", "keep-alive")
	w.Header().Set("Transfer-Encoding", "chunked")
	_, _ = io.WriteString(w, "hop")
}

func upgradeRequired(w http.ResponseWriter, _ *http.Request, _ []int) {
	w.Header().Set("Upgrade", "websocket")
	w.WriteHeader(http.StatusUpgradeRequired)
}

func earlyHints(w http.ResponseWriter, _ *http.Request, _ []int) {
	w.Header().Set("Link", "</style.css>; rel=preload; as=style")
	w.WriteHeader(http.StatusEarlyHints)
	text(w)
	_, _ = io.WriteString(w, "hinted")
}

func trailers(w http.ResponseWriter, _ *http.Request, _ []int) {
	text(w)
	w.Header().Set("Trailer", "X-Sum")
	_, _ = io.WriteString(w, "body")
	w.Header().Set("X-Sum", "4")
	w.Header().Set(http.TrailerPrefix+"Content-Length", "9")
}

func requestTrailers(w http.ResponseWriter, r *http.Request, _ []int) {
	count, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		panic(err)
	}
	lines := []string{}
	for name, values := range r.Trailer {
		lines = append(lines, strings.ToLower(name)+": "+strings.Join(values, ", ")+"\n")
	}
	sort.Strings(lines)
	text(w)
	fmt.Fprintf(w, "%d\n%s", count, strings.Join(lines, ""))
}

// pattern makes a file of so many bytes 0, 1, … 250, 0, …
func pattern(count int) *os.File {
	file, err := os.CreateTemp("", "pattern")
	if err != nil {
		panic(err)
	}
	data := make([]byte, count)
	for i := range data {
		data[i] = byte(i % 251)
	}
	if _, err := file.Write(data); err != nil {
		panic(err)
	}
	return file
}

func file(w http.ResponseWriter, r *http.Request, numbers []int) {
	file := pattern(numbers[0])
	defer file.Close()
	defer os.Remove(file.Name())
	text(w)
	http.ServeFile(w, r, file.Name())
}

func sendFile(w http.ResponseWriter, _ *http.Request, numbers []int) {
	file := pattern(numbers[0])
	defer file.Close()
	defer os.Remove(file.Name())
	text(w)
	w.Header().Set("X-Sendfile", file.Name())
	w.WriteHeader(http.StatusOK)
}

func sendFilePath(w http.ResponseWriter, r *http.Request, _ []int) {
	path, err := url.PathUnescape(r.URL.RawQuery)
	if err != nil {
		panic(err)
	}
	text(w)
	w.Header().Set("X-Sendfile", path)
	_, _ = io.WriteString(w, "instead")
}

func sum(w http.ResponseWriter, r *http.Request, _ []int) {
	hash := sha256.New()
	count, err := io.Copy(hash, r.Body)
	if err != nil {
		panic(err)
	}
	text(w)
	fmt.Fprintf(w, "%d %s", count, hex.EncodeToString(hash.Sum(nil)))
}

func wait(_ http.ResponseWriter, r *http.Request, _ []int) {
	<-r.Context().Done()
}

func refuse(w http.ResponseWriter, _ *http.Request, _ []int) {
	http.Error(w, "refused", http.StatusForbidden)
}
