// The application of the differential test (adapters/differential/README.md): alone with a port, or behind Maitred.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"maitred"
	"maitred/internal/websocket"
)

func main() {
	address := ""
	if len(os.Args) > 1 {
		address = "127.0.0.1:" + os.Args[1]
	}
	// Not a ServeMux, which would redirect paths that are not clean.
	if err := maitred.ListenAndServe(address, http.HandlerFunc(serve)); err != nil {
		log.Fatal(err)
	}
}

var routes = map[string]http.HandlerFunc{
	"echo":       echo,
	"headers":    headers,
	"cookies":    cookies,
	"bytes":      someBytes,
	"stream":     stream,
	"status":     status,
	"repeat":     repeat,
	"redirect":   redirect,
	"etag":       etag,
	"error":      fail,
	"error-late": failLate,
	"slow":       slow,
	"hop":        hop,
	"file":       file,
	"ws":         websocket.Echo,
	"ws-refused": refuse,
}

func serve(w http.ResponseWriter, r *http.Request) {
	name := strings.Split(r.URL.Path+"/", "/")[1]
	handler, known := routes[name]
	if !known {
		handler = func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusNotFound, "text/plain", []byte("missing"))
		}
	}
	handler(w, r)
}

func answer(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func answerJSON(w http.ResponseWriter, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	answer(w, http.StatusOK, "application/json", data)
}

// number is a number of the query, or 0.
func number(r *http.Request, name string) int {
	value, _ := strconv.Atoi(r.URL.Query().Get(name))
	return value
}

func pattern(count int) []byte {
	data := make([]byte, count)
	for i := range data {
		data[i] = byte(i % 251)
	}
	return data
}

func echo(w http.ResponseWriter, r *http.Request) {
	hash := sha256.New()
	count, err := io.Copy(hash, r.Body)
	if err != nil {
		panic(err)
	}
	answerJSON(w, map[string]any{
		"method": r.Method, "path": r.URL.Path, "query": r.URL.RawQuery, "type": r.Header.Get("Content-Type"),
		"length": count, "sha256": hex.EncodeToString(hash.Sum(nil)),
	})
}

func headers(w http.ResponseWriter, r *http.Request) {
	seen := map[string][]string{"Host": {r.Host}}
	for name, values := range r.Header {
		if strings.HasPrefix(name, "X-Test") || name == "Accept-Language" || name == "Content-Type" {
			seen[name] = values
		}
	}
	answerJSON(w, seen)
}

func cookies(w http.ResponseWriter, r *http.Request) {
	seen := map[string]string{}
	for _, cookie := range r.Cookies() {
		seen[cookie.Name] = cookie.Value
	}
	w.Header().Add("Set-Cookie", "a=1; Path=/; HttpOnly")
	w.Header().Add("Set-Cookie", "b=2; Max-Age=60")
	answerJSON(w, seen)
}

func someBytes(w http.ResponseWriter, r *http.Request) {
	answer(w, http.StatusOK, "application/octet-stream", pattern(number(r, "n")))
}

func stream(w http.ResponseWriter, r *http.Request) {
	data, pieces := pattern(number(r, "n")), number(r, "pieces")
	w.Header().Set("Content-Type", "application/octet-stream")
	for ; pieces > 0 && len(data) > 0; pieces-- {
		size := (len(data) + pieces - 1) / pieces
		if _, err := w.Write(data[:size]); err != nil {
			return
		}
		data = data[size:]
		w.(http.Flusher).Flush()
	}
}

func status(w http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/status/"))
	if err != nil {
		panic(err)
	}
	if code == http.StatusNoContent {
		w.WriteHeader(code)
		return
	}
	answer(w, code, "text/plain", []byte(fmt.Sprintf("status %d\n", code)))
}

func repeat(w http.ResponseWriter, _ *http.Request) {
	w.Header()["X-Test"] = []string{"one", "two"}
	w.Header().Set("X-Other", "caf\xe9")
	answer(w, http.StatusOK, "text/plain", []byte("repeat"))
}

func redirect(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "/bytes?n=5")
	w.WriteHeader(http.StatusFound)
}

func etag(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"v1"`)
	w.Header().Set("Cache-Control", "max-age=60")
	if r.Header.Get("If-None-Match") == `"v1"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	answer(w, http.StatusOK, "text/plain", []byte("version 1"))
}

// fail does not panic: net/http answers nothing then, which the runner takes for a server that does not work.
func fail(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
}

func failLate(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, "first")
	w.(http.Flusher).Flush()
	panic("asked for by /error-late")
}

// hop sets what concerns the connection; many applications do.
func hop(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Connection", "keep-alive")
	w.Header().Set("Keep-Alive", "timeout=5")
	w.Header().Set("Proxy-Connection", "keep-alive")
	answer(w, http.StatusOK, "text/plain", []byte("hop"))
}

func slow(w http.ResponseWriter, r *http.Request) {
	time.Sleep(time.Duration(number(r, "ms")) * time.Millisecond)
	answer(w, http.StatusOK, "text/plain", []byte("slow"))
}

func file(w http.ResponseWriter, r *http.Request) {
	name := filepath.Join(os.TempDir(), fmt.Sprintf("maitred-differential-%d", os.Getpid()))
	if err := os.WriteFile(name, pattern(200_000), 0o600); err != nil {
		panic(err)
	}
	defer os.Remove(name)
	// The same time both ways.
	then := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := os.Chtimes(name, then, then); err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeFile(w, r, name)
}

func refuse(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusForbidden, "text/plain", []byte("refused"))
}
