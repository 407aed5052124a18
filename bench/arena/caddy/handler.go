package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A number in a body is short; what is longer is refused.
const bodyBytesMax = 64

// Arena answers with sums of numbers, and with JSON of a data set that is read once.
type Arena struct {
	// Data is the file of the data set.
	Data string `json:"data,omitempty"`

	items []item
}

type rating struct {
	Score int `json:"score"`
	Count int `json:"count"`
}

type item struct {
	ID       int      `json:"id"`
	Name     string   `json:"name"`
	Category string   `json:"category"`
	Price    int64    `json:"price"`
	Quantity int64    `json:"quantity"`
	Active   bool     `json:"active"`
	Tags     []string `json:"tags"`
	Rating   rating   `json:"rating"`
}

type priced struct {
	item
	Total int64 `json:"total"`
}

type answer struct {
	Items []priced `json:"items"`
	Count int      `json:"count"`
}

func init() {
	caddy.RegisterModule(Arena{})
}

// CaddyModule names the handler.
func (Arena) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.arena", New: func() caddy.Module { return new(Arena) }}
}

// Provision reads the data set.
func (a *Arena) Provision(caddy.Context) error {
	text, err := os.ReadFile(a.Data)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &a.items); err != nil {
		return fmt.Errorf("%s: %w", a.Data, err)
	}
	return nil
}

// ServeHTTP answers by the path.
func (a *Arena) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	switch {
	case r.URL.Path == "/baseline11" || r.URL.Path == "/baseline2":
		return sum(w, r)
	case strings.HasPrefix(r.URL.Path, "/json/"):
		return a.list(w, r)
	}
	return next.ServeHTTP(w, r)
}

// sum adds the numbers of the query, and that of the body.
func sum(w http.ResponseWriter, r *http.Request) error {
	var total int64
	for _, values := range r.URL.Query() {
		for _, value := range values {
			number, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return caddyhttp.Error(http.StatusBadRequest, err)
			}
			total += number
		}
	}
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyBytesMax))
		if err != nil {
			return caddyhttp.Error(http.StatusBadRequest, err)
		}
		number, err := strconv.ParseInt(strings.TrimSpace(string(body)), 10, 64)
		if err != nil {
			return caddyhttp.Error(http.StatusBadRequest, err)
		}
		total += number
	}
	return write(w, "text/plain", strconv.AppendInt(nil, total, 10))
}

// list has the first items, each with its total.
func (a *Arena) list(w http.ResponseWriter, r *http.Request) error {
	count, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/json/"))
	if err != nil || count < 0 || count > len(a.items) {
		return caddyhttp.Error(http.StatusNotFound, fmt.Errorf("no such number of items: %s", r.URL.Path))
	}
	factor, err := strconv.ParseInt(r.URL.Query().Get("m"), 10, 64)
	if err != nil {
		return caddyhttp.Error(http.StatusBadRequest, err)
	}
	items := make([]priced, count)
	for at, item := range a.items[:count] {
		items[at] = priced{item: item, Total: item.Price * item.Quantity * factor}
	}
	text, err := json.Marshal(answer{Items: items, Count: count})
	if err != nil {
		return err
	}
	return write(w, "application/json", text)
}

func write(w http.ResponseWriter, contentType string, content []byte) error {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, err := w.Write(content)
	return err
}
