package maitred

import (
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// pieceBytes is where a response of unknown length becomes chunked, and the size of its small chunks: as in net/http, so that
	// a response has the same framing here and there.
	pieceBytes = 2048
	// outBytes are sent together with what comes before and after them; what is larger is not copied.
	outBytes = 16 << 10
	// outBytesKept is the largest buffer that is used again.
	outBytesKept = 64 << 10
)

var errOver = errors.New("maitred: write after the handler has returned")

// buffers are used again by other responses.
type buffers struct {
	out, piece []byte
}

var bufferPool = sync.Pool{New: func() any {
	return &buffers{out: make([]byte, 0, outBytes), piece: make([]byte, 0, pieceBytes)}
}}

// response is the http.ResponseWriter of one exchange.
type response struct {
	x       *exchange
	began   time.Time
	buffers *buffers
	fields  http.Header
	head    headState

	wroteHeader bool
	informed    int  // informational responses
	refused     bool // it became a 500, and what the handler writes is dropped
	hijacked    bool
	over        bool // the handler has returned

	status        int
	contentLength int64 // -1 if it is not known
	written       int64 // by the handler, of the body
	bodyBytes     uint64
	sendfile      *os.File // named by X-Sendfile: the whole body

	out   []byte // what is ready to be sent: head, framing, small pieces
	piece []byte // body that has no framing yet

	sent      bool // the socket has taken something
	tailing   bool // everything from here on is Maitred's to deliver
	tails     int
	tailBytes int // of them that are bytes
	deadline  time.Time
	waitRaw   syscall.RawConn
	err       error // why the response is aborted
}

// begin makes a response that was not used before the one of x.
func (w *response) begin(x *exchange, began time.Time) {
	b := bufferPool.Get().(*buffers)
	w.x, w.began, w.buffers, w.out, w.piece, w.contentLength = x, began, b, b.out[:0], b.piece[:0], -1
}

// release gives back what the response held.
func (w *response) release() {
	w.closeWaiter()
	if w.sendfile != nil {
		w.sendfile.Close()
	}
	if cap(w.out) <= outBytesKept {
		w.buffers.out = w.out
	}
	bufferPool.Put(w.buffers)
	w.out, w.piece, w.buffers = nil, nil, nil
}

// Header is what http.ResponseWriter says.
func (w *response) Header() http.Header {
	if w.fields == nil {
		w.fields = make(http.Header)
	}
	return w.fields
}

// WriteHeader is what http.ResponseWriter says. Informational responses are sent to clients that may have them.
func (w *response) WriteHeader(status int) {
	switch {
	case w.hijacked || w.over:
		w.logCaller("http: response.WriteHeader on a connection or request that is not this handler's any more")
		return
	case w.wroteHeader:
		w.logCaller("http: superfluous response.WriteHeader call")
		return
	case status < 100 || status > 999:
		panic("invalid WriteHeader code " + strconv.Itoa(status))
	case status < 200 && status != http.StatusSwitchingProtocols:
		w.inform(status)
		return
	}
	w.setStatus(status)
	if status == http.StatusSwitchingProtocols && w.x.flags&flagMayDetach == 0 {
		w.refuse(only101)
		return
	}
	w.writeFields()
}

// only101 is why a 101 without Hijack is refused. The head of one waits for Hijack: without it there is no handler for the
// new protocol.
const only101 = "101 is for handlers that take the connection over (http.Hijacker)"

// switches says that the response is the head of an upgrade, which Hijack is to send.
func (w *response) switches() bool { return w.wroteHeader && w.status == http.StatusSwitchingProtocols }

func (w *response) setStatus(status int) { w.wroteHeader, w.status = true, status }

func (w *response) logCaller(text string) {
	// Above are this function, the method, and possibly one of its callers here.
	_, file, line, _ := runtime.Caller(2)
	w.x.channel.logf("%s from %s:%d", text, file, line)
}

// Write is what http.ResponseWriter says.
func (w *response) Write(data []byte) (int, error) {
	if err := w.mayWrite(len(data)); err != nil || len(data) == 0 || w.drops() {
		return lengthUnless(err, len(data)), err
	}
	fits, err := w.fit(data)
	w.body(fits)
	if w.err != nil {
		return 0, w.err
	}
	return len(fits), err
}

// WriteString is what io.StringWriter says.
func (w *response) WriteString(data string) (int, error) {
	if w.wroteHeader && w.err == nil && !w.drops() && w.contentLength < 0 && len(w.piece)+len(data) <= pieceBytes && w.pieces() &&
		!w.over && !w.hijacked && bodyAllowed(w.status) {
		w.piece = append(w.piece, data...)
		w.written += int64(len(data))
		return len(data), nil
	}
	return w.Write([]byte(data))
}

func lengthUnless(err error, length int) int {
	if err != nil {
		return 0
	}
	return length
}

// mayWrite is what is to be known before a write.
func (w *response) mayWrite(length int) error {
	switch {
	case w.hijacked:
		return http.ErrHijacked
	case w.over:
		return errOver
	case w.err != nil:
		return w.err
	}
	if !w.wroteHeader {
		w.WriteHeader(http.StatusOK)
	}
	if length > 0 && !bodyAllowed(w.status) {
		return http.ErrBodyNotAllowed
	}
	return nil
}

// drops says that what the handler writes is not the body.
func (w *response) drops() bool { return w.refused || w.sendfile != nil }

// fit cuts data where the stated length ends.
func (w *response) fit(data []byte) ([]byte, error) {
	var err error
	if room := w.contentLength - w.written; w.contentLength >= 0 && int64(len(data)) > room {
		data, err = data[:room], http.ErrContentLength
	}
	w.written += int64(len(data))
	return data, err
}

// pieces says that body is collected before it is framed.
func (w *response) pieces() bool { return !w.head.complete || w.head.chunked }

// body takes more of the body, which fits.
func (w *response) body(data []byte) {
	last := w.written == w.contentLength
	if !w.pieces() {
		w.emit(data, last)
		return
	}
	if room := pieceBytes - len(w.piece); len(data) > room {
		if len(w.piece) > 0 {
			w.piece = append(w.piece, data[:room]...)
			data = data[room:]
			w.pushPiece(false)
		}
		if len(data) > pieceBytes {
			w.push(data, last)
			return
		}
	}
	w.piece = append(w.piece, data...)
}

func (w *response) pushPiece(last bool) {
	w.push(w.piece, last)
	w.piece = w.piece[:0]
}

// push frames a part of the body.
func (w *response) push(data []byte, last bool) {
	if !w.head.complete {
		w.completeHead(data)
	}
	switch {
	case w.head.bodiless || len(data) == 0:
	case w.head.chunked:
		w.out = append(strconv.AppendUint(w.out, uint64(len(data)), 16), '\r', '\n')
		w.emit(data, last)
		w.out = append(w.out, '\r', '\n')
	default:
		w.emit(data, last)
	}
}

// emit sends a part of the body, or keeps it to be sent with what follows.
func (w *response) emit(data []byte, last bool) {
	if w.head.bodiless || w.err != nil {
		return
	}
	w.bodyBytes += uint64(len(data))
	if len(w.out)+len(data) <= outBytes {
		w.out = append(w.out, data...)
		return
	}
	copied := len(data) <= outBytes/2
	w.flushOut(last, !copied)
	if copied {
		w.out = append(w.out, data...)
		return
	}
	w.send(data, last, false)
}

func (w *response) flushOut(last, more bool) {
	w.send(w.out, last, more)
	w.out = w.out[:0]
}

// Flush is what http.Flusher says.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is Flush for http.ResponseController.
func (w *response) FlushError() error {
	if err := w.mayWrite(0); err != nil {
		return err
	}
	if w.drops() || w.switches() {
		return nil
	}
	w.pushPiece(false)
	w.flushOut(false, false)
	return w.err
}

// SetWriteDeadline is for http.ResponseController: writes fail from then on, as with net/http. What is left to Maitred when the
// handler returns is no write.
func (w *response) SetWriteDeadline(deadline time.Time) error {
	w.deadline = deadline
	x := w.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.waiter != nil && !x.isCancelled() {
		return x.waiter.SetWriteDeadline(deadline)
	}
	return nil
}

// SetReadDeadline is for http.ResponseController. There is nothing that could wait: the request is here.
func (w *response) SetReadDeadline(time.Time) error { return nil }

// EnableFullDuplex is for http.ResponseController. The request is here; reading it does not depend on the response.
func (w *response) EnableFullDuplex() error { return nil }

// CloseNotify is what http.CloseNotifier says; frameworks ask for it. Handlers had better use the request's context.
func (w *response) CloseNotify() <-chan bool {
	if w.over {
		panic("maitred: CloseNotify called after ServeHTTP finished")
	}
	x := w.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closeNotify == nil {
		x.closeNotify = make(chan bool, 1)
		if x.isCancelled() || w.err != nil {
			x.closeNotify <- true
		}
	}
	return x.closeNotify
}

// finish completes the response of a handler that has returned, and says what DONE is to say.
func (w *response) finish() done {
	if !w.wroteHeader {
		if w.err != nil || w.x.isCancelled() {
			return w.broken()
		}
		w.setStatus(http.StatusOK)
		w.writeFields()
	}
	if w.switches() && !w.refused {
		w.refuse(only101)
	}
	switch {
	case w.refused:
		return w.answer500()
	case w.sendfile != nil:
		w.sendNamedFile()
	case w.err == nil:
		w.pushPiece(false)
	}
	if !w.head.bodiless && w.contentLength > w.written && w.err == nil {
		w.err = io.ErrShortWrite
		w.send(w.out, true, false)
		return w.broken()
	}
	if w.err != nil {
		// The last chunk would make it look complete.
		return w.broken()
	}
	if w.head.chunked {
		w.out = append(w.out, "0\r\n"...)
		w.appendTrailers()
		w.out = append(w.out, '\r', '\n')
	}
	w.flushOut(true, false)
	if w.err != nil {
		return w.broken()
	}
	flags := byte(flagClean)
	if w.head.untilClose {
		flags = flagClose
	}
	return done{flags: flags, status: w.status, bodyBytes: w.bodyBytes}
}

// abort ends the response of a handler that did not return. If it has failed, the client gets an error, unless it has already
// got something else.
func (w *response) abort(failed bool) done {
	if failed && !w.sent && w.tails == 0 {
		return w.answer500()
	}
	return w.broken()
}

func (w *response) broken() done {
	if !w.sent && w.tails == 0 {
		return done{}
	}
	return done{status: w.status, bodyBytes: w.bodyBytes}
}

// answer500 sends a neutral error instead of everything that was not sent.
func (w *response) answer500() done {
	const text = "Internal Server Error\n"
	w.setStatus(http.StatusInternalServerError)
	w.over, w.refused = true, false
	w.fields = http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
	w.out, w.piece, w.head, w.bodyBytes = w.out[:0], append(w.piece[:0], text...), headState{}, 0
	w.contentLength, w.written, w.err = -1, int64(len(text)), nil
	w.writeFields()
	w.pushPiece(false)
	w.flushOut(true, false)
	if w.err != nil {
		return w.broken()
	}
	return done{flags: flagClean, status: w.status, bodyBytes: w.bodyBytes}
}

// refuse makes the response a 500, because what the handler asks for must not be sent.
func (w *response) refuse(why string) {
	w.x.channel.logf("maitred: the response becomes 500: %s", why)
	w.refused = true
}
