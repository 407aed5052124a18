package maitred

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"maitred/internal/front"
)

func init() { front.Serve = serveFront }

func serveFront(o front.Options) error {
	s := Server{HTTP: &http.Server{ErrorLog: o.ErrorLog}, Capacity: o.Capacity, front: o.Handle, name: o.Name}
	return s.Serve()
}

// frontExchange is an exchange as a front other than net/http sees it.
type frontExchange struct{ *exchange }

func (x frontExchange) Head() string {
	if x.known == nil {
		return x.head
	}
	first := strings.IndexByte(x.head, '\n') + 1
	return x.head[:first] + x.known.text + x.head[first:]
}
func (x frontExchange) HTTP10() bool                { return x.flags&flagHTTP10 != 0 }
func (x frontExchange) TLS() bool                   { return x.meta.scheme == "https" }
func (x frontExchange) Remote() string              { return x.meta.remote }
func (x frontExchange) Local() string               { return x.meta.local }
func (x frontExchange) Mount() string               { return x.meta.mount }
func (x frontExchange) User() (name, scheme string) { return x.meta.user, x.meta.authType }
func (x frontExchange) Context() context.Context    { return &x.ctx }
func (x frontExchange) Trailers() http.Header       { return x.response.Header() }
func (x frontExchange) FlushError() error           { return x.response.FlushError() }

func (x frontExchange) Write(data []byte) (int, error)           { return x.response.Write(data) }
func (x frontExchange) ReadFrom(source io.Reader) (int64, error) { return x.response.ReadFrom(source) }
func (x frontExchange) SetWriteDeadline(deadline time.Time) error {
	return x.response.SetWriteDeadline(deadline)
}
func (x frontExchange) Abort(err error) { x.response.fail(err) }
func (x frontExchange) Begin(status int, length int64, f []front.Field) {
	x.response.beginList(status, length, f)
}

// Body has no bytes where the client wants another protocol: those are that protocol's.
func (x frontExchange) Body() ([]byte, *os.File) {
	if x.flags&flagMayDetach != 0 {
		return nil, nil
	}
	return x.body, x.bodyFile
}

func (x frontExchange) Inform(status int, fields []front.Field) {
	w := &x.response
	kept := w.fields
	w.fields = make(http.Header, len(fields))
	for _, field := range fields {
		w.fields.Add(field.Name, field.Value)
	}
	w.inform(status)
	w.fields = kept
}

// beginList is WriteHeader for fields that stand in a list. Content is not looked at to find its type.
func (w *response) beginList(status int, length int64, fields []front.Field) {
	w.setStatus(status)
	if status == http.StatusSwitchingProtocols || status < 200 || status > 999 {
		w.refuse("a handler of this interface cannot send the status " + http.StatusText(status))
		return
	}
	w.contentLength = length
	w.appendStatusLine(status)
	var hop map[string]bool
	for _, field := range fields {
		if http.CanonicalHeaderKey(field.Name) == "Connection" {
			hop = namedIn(hop, field.Value)
		}
	}
	for _, field := range fields {
		values := [1]string{field.Value}
		if !w.look(field.Name, values[:]) || hop[http.CanonicalHeaderKey(field.Name)] && !drop(field.Name) {
			continue
		}
		if !w.appendField(field.Name, field.Value) {
			w.refuseField(field.Name, field.Value)
			return
		}
	}
	w.head.hasType = true
}
