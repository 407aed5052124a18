// Package front is what the adapter's fronts besides net/http are made with: package maitred has the channel, the framing and the
// delivery, and a front turns a request and a response into what its applications know.
package front

import (
	"context"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

// Options are what Serve needs to know.
type Options struct {
	Name     string // of the front, for Maitred's status and log
	Capacity int    // as in maitred.Server
	ErrorLog *log.Logger
	Handle   func(Exchange)
}

// Serve is Serve of maitred.Server, with another front. Package maitred sets it.
var Serve func(Options) error

// Field is one line of a head.
type Field struct{ Name, Value string }

// Exchange is a request, and the response to it. It is not used again: what it returns may be kept.
type Exchange interface {
	// Head is the request's head as Maitred writes it: names in lower case, HTTP/1.1 in the first line, an empty line at the end.
	Head() string
	HTTP10() bool
	TLS() bool
	Remote() string
	Local() string
	Mount() string
	User() (name, scheme string)
	// Body is all of the request's body: bytes, which may be changed, or a file, which is closed behind the exchange.
	Body() ([]byte, *os.File)
	// Context ends with the exchange, and when the client has gone.
	Context() context.Context

	// Inform sends an informational response, where the client may have it.
	Inform(status int, fields []Field)
	// Begin fixes the head of the response. length is that of the body, or -1: it comes in chunks then. Fields that concern the
	// connection are left out.
	Begin(status int, length int64, fields []Field)
	// Trailers may be set until the exchange ends: those whose names are announced by a field Trailer are sent.
	Trailers() http.Header
	// Write is for the body. It cuts what is more than the stated length. ReadFrom leaves a file that completes the body to Maitred.
	io.Writer
	io.ReaderFrom
	FlushError() error
	SetWriteDeadline(time.Time) error
	// Abort breaks the response off.
	Abort(err error)
}
