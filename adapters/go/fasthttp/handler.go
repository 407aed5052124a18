package maitredfasthttp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/valyala/fasthttp"

	"maitred/internal/front"
)

const (
	// headBytes is the size of the buffers from which heads are read; larger heads have one of their own.
	headBytes = 4096
	// pieceBytes are read of a stream at a time.
	pieceBytes = 32 << 10

	defaultType = "text/plain; charset=utf-8"
)

var errHijack = errors.New("maitred: Hijack: a connection cannot be taken over by a handler of fasthttp")

// handlerFront calls a handler of fasthttp.
type handlerFront struct{ server *fasthttp.Server }

// carrier is what one request after another is answered with: handlers of fasthttp do not keep what they get.
type carrier struct {
	ctx    fasthttp.RequestCtx
	conn   *conn
	text   strings.Reader
	reader *bufio.Reader
	fields []front.Field
	values []byte
	ends   []int
}

var carriers = sync.Pool{New: func() any {
	c := &carrier{}
	c.reader = bufio.NewReaderSize(&c.text, headBytes)
	return c
}}

func (f *handlerFront) handle(x front.Exchange) {
	c := carriers.Get().(*carrier)
	c.conn = &conn{x: x}
	ctx := &c.ctx
	if x.TLS() {
		ctx.Init2(secure{c.conn}, f.server.Logger, false)
	} else {
		ctx.Init2(c.conn, f.server.Logger, false)
	}
	ctx.Response.Header.SetNoDefaultContentType(f.server.NoDefaultContentType)
	if err := c.readRequest(x); err != nil {
		x.Begin(http.StatusBadRequest, 0, nil)
		c.release()
		return
	}
	f.server.Handler(ctx)
	c.conn.finish()
	if ctx.Hijacked() {
		panic(errHijack)
	}
	if late := ctx.LastTimeoutErrorResponse(); late != nil {
		// The handler may still use ctx: it is not used again.
		c.respond(x, f.server.Name, late)
		return
	}
	c.respond(x, f.server.Name, &ctx.Response)
	c.release()
}

// release gives a carrier back. One whose handler has panicked is not used again.
func (c *carrier) release() {
	c.ctx.ResetUserValues()
	c.ctx.Request.Reset()
	c.ctx.Response.Reset()
	c.conn = nil
	for i := range c.fields {
		c.fields[i] = front.Field{}
	}
	c.fields = c.fields[:0]
	carriers.Put(c)
}

func (c *carrier) readRequest(x front.Exchange) error {
	head := x.Head()
	reader := c.reader
	c.text.Reset(head)
	if len(head) > headBytes {
		reader = bufio.NewReaderSize(&c.text, len(head))
	} else {
		reader.Reset(&c.text)
	}
	request := &c.ctx.Request
	err := request.Header.Read(reader)
	c.text.Reset("")
	if err != nil {
		return err
	}
	if x.HTTP10() {
		request.Header.SetProtocol("HTTP/1.0")
	}
	if data, file := x.Body(); file != nil {
		size := request.Header.ContentLength()
		request.SetBodyStream(io.NewSectionReader(file, 0, int64(size)), size)
	} else if len(data) > 0 {
		request.SetBodyRaw(data)
	}
	if x.TLS() {
		request.URI().SetScheme("https")
	}
	if mount := x.Mount(); mount != "" {
		unmount(request.URI(), mount)
	}
	return nil
}

// unmount takes the mount from the front of the path.
func unmount(uri *fasthttp.URI, mount string) {
	path := uri.Path()
	if !bytes.HasPrefix(path, []byte(mount)) {
		return
	}
	below := string(path[len(mount):])
	switch {
	case below == "":
		uri.SetPath("/")
	case below[0] == '/':
		uri.SetPath(below)
	}
}

func (c *carrier) respond(x front.Exchange, server string, response *fasthttp.Response) {
	if err := x.Context().Err(); err != nil {
		// The client has gone. A handler of fasthttp cannot say that it has no response.
		x.Abort(err)
		return
	}
	stream := response.BodyStream()
	length := int64(response.Header.ContentLength())
	var data []byte
	if stream == nil {
		data = response.Body()
		switch {
		case len(data) > 0 || !c.ctx.IsHead():
			length = int64(len(data))
		case length <= 0:
			// The handler of a HEAD has not said how long its body would be.
			length = -1
		}
	} else if length < 0 {
		length = -1
	}
	c.list(&response.Header, stream == nil && length <= 0)
	if server != "" && len(response.Header.Server()) == 0 {
		c.fields = append(c.fields, front.Field{Name: "Server", Value: server})
	}
	x.Begin(response.StatusCode(), length, c.fields)
	if c.ctx.IsHead() || response.SkipBody {
		_ = response.CloseBodyStream()
		return
	}
	if stream == nil {
		_, _ = x.Write(data)
		return
	}
	if response.ImmediateHeaderFlush {
		_ = x.FlushError()
	}
	// What is more than the stated length is left out, as fasthttp does.
	if err := send(x, stream, length >= 0); err != nil && !errors.Is(err, http.ErrContentLength) {
		x.Abort(err)
	}
	_ = response.CloseBodyStream()
	setTrailers(x, &response.Header)
}

// list collects the fields of a response. Their values are one text.
func (c *carrier) list(header *fasthttp.ResponseHeader, empty bool) {
	c.fields, c.values, c.ends = c.fields[:0], c.values[:0], c.ends[:0]
	trailers := trailersOf(header)
	header.VisitAll(func(key, value []byte) {
		name := nameOf(key)
		if name == fasthttp.HeaderContentLength || trailers[name] ||
			empty && name == fasthttp.HeaderContentType && string(value) == defaultType {
			return
		}
		c.fields = append(c.fields, front.Field{Name: name})
		c.values = append(c.values, value...)
		c.ends = append(c.ends, len(c.values))
	})
	text, start := string(c.values), 0
	for i, end := range c.ends {
		c.fields[i].Value = text[start:end]
		start = end
	}
}

// names are those of fields that most responses have.
var names = func() map[string]string {
	table := make(map[string]string)
	for _, name := range []string{
		"Accept-Ranges", "Access-Control-Allow-Origin", "Allow", "Cache-Control", "Connection", "Content-Encoding", "Content-Length",
		"Content-Type", "Date", "Etag", "Expires", "Last-Modified", "Link", "Location", "Server", "Set-Cookie", "Trailer", "Vary",
		"X-Content-Type-Options", "X-Frame-Options",
	} {
		table[name] = name
	}
	return table
}()

func nameOf(key []byte) string {
	if name, known := names[string(key)]; known {
		return name
	}
	return string(key)
}

// trailersOf are the names that the field Trailer announces; nil if there are none.
func trailersOf(header *fasthttp.ResponseHeader) (announced map[string]bool) {
	header.VisitAllTrailer(func(name []byte) {
		if announced == nil {
			announced = make(map[string]bool)
		}
		announced[http.CanonicalHeaderKey(string(name))] = true
	})
	return announced
}

func setTrailers(x front.Exchange, header *fasthttp.ResponseHeader) {
	for name := range trailersOf(header) {
		for _, value := range header.PeekAll(name) {
			x.Trailers().Add(name, string(value))
		}
	}
}

// send is the body of a stream. What has no stated length leaves as it is read.
func send(x front.Exchange, stream io.Reader, stated bool) error {
	if stated {
		// The streams of fasthttp's own file handler know what they read from.
		whole, ok := stream.(io.WriterTo)
		if _, file := stream.(*os.File); ok && !file {
			_, err := whole.WriteTo(x)
			return err
		}
		_, err := x.ReadFrom(stream)
		return err
	}
	piece := make([]byte, pieceBytes)
	for {
		n, err := stream.Read(piece)
		if n > 0 {
			if _, err := x.Write(piece[:n]); err != nil {
				return err
			}
			if err := x.FlushError(); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
