package maitred

import (
	"net/http"
	"net/url"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// connection is a response descriptor that is kept under Maitred's number for it. Its requests run one after another.
type connection struct {
	number uint32
	meta   *metaLines // of its last request; the goroutine that reads the channel has it, and the next one
	unlike int        // so many heads differed from those before them
	known  atomic.Pointer[knownHead]

	mu        sync.Mutex
	fd        int
	current   *exchange
	queue     []*exchange
	forgotten bool // close fd when nothing runs or waits any more
	detached  bool // fd belongs to a handler
}

// begin starts a request, or lets it wait for those before it.
func (k *connection) begin(x *exchange) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.detached && k.current == nil {
		return violation("a REQUEST for connection %d, which was taken over", k.number)
	}
	x.channel.requests.Add(1)
	if k.current == nil {
		k.current = x
		x.channel.crew.add(x)
	} else {
		k.queue = append(k.queue, x)
	}
	return nil
}

// next is called when the current request has ended.
func (k *connection) next() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current = nil
	switch {
	case len(k.queue) > 0:
		x := k.queue[0]
		k.queue = k.queue[1:]
		k.current, x.detached = x, k.detached
		x.channel.crew.add(x)
		x.channel.crew.start()
	case k.forgotten:
		k.close()
	}
}

// forget closes the descriptor, after the requests that have come.
func (k *connection) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgotten = true
	if k.current == nil {
		k.close()
	}
}

func (k *connection) close() {
	if !k.detached {
		syscall.Close(k.fd)
	}
}

// cancel cancels the context of a request; one that is not under way is left alone.
func (k *connection) cancel(request uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current != nil && k.current.id == request {
		k.current.cancel()
		return
	}
	for _, x := range k.queue {
		if x.id == request {
			x.cancel()
		}
	}
}

// exchange is one request, from REQUEST to DONE or DETACH. It is allocated once, with what a handler gets to see of it, and not
// used again: a handler may keep that.
type exchange struct {
	channel    *channel
	connection *connection
	id         uint32
	flags      byte
	detached   bool // a request before it has taken the connection over
	meta       *metaLines
	head       string
	known      *knownHead // fields that are not in head
	body       []byte
	bodyFile   *os.File
	trailers   http.Header // nil if none came

	ctx      requestContext
	response response
	url      url.URL

	cancelled atomic.Bool
	mu        sync.Mutex
	waiter    *os.File // what the response waits on, while it does
	// closeNotify is made when a handler asks for it (http.CloseNotifier).
	closeNotify chan bool
}

// cancel ends the request's context, and what waits for the client.
func (x *exchange) cancel() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cancelled.Store(true)
	x.tell()
	if x.waiter != nil {
		_ = x.waiter.SetWriteDeadline(time.Unix(1, 0))
	}
}

// tell says to a handler that its client has gone. It is called with mu held.
func (x *exchange) tell() {
	x.ctx.cancel()
	if x.closeNotify != nil {
		select {
		case x.closeNotify <- true:
		default:
		}
	}
}

func (x *exchange) isCancelled() bool { return x.cancelled.Load() }

// run answers the request.
func (x *exchange) run(t *turn) {
	began := t.now
	c := x.channel
	if x.detached || x.isCancelled() {
		x.closeBody()
		x.end(done{}, began, t)
		return
	}
	x.ctx.base, x.ctx.meta = c.base, x.meta
	w := &x.response
	w.begin(x, began)
	returned := false
	// A deferred call, because a handler may end its goroutine.
	defer func() {
		value := recover()
		w.over = true
		x.ctx.cancel()
		if w.hijacked {
			c.detached.Done()
			x.logPanic(value)
			t.ended(time.Now())
			return
		}
		var report done
		if returned {
			report = w.finish()
		} else {
			x.logPanic(value)
			report = w.abort(value != nil && value != http.ErrAbortHandler)
		}
		w.release()
		x.closeBody()
		x.end(report, began, t)
	}()
	x.handle(w)
	returned = true
}

func (x *exchange) handle(w *response) {
	if x.channel.front != nil {
		x.channel.front(frontExchange{x})
		return
	}
	server := x.channel.server
	r, err := x.newRequest(&x.ctx)
	if err != nil {
		// The same text as net/http's.
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.WriteString("400 Bad Request")
		return
	}
	handler := server.Handler
	if handler == nil {
		handler = http.DefaultServeMux
	}
	if r.RequestURI == "*" && r.Method == http.MethodOptions && !disablesGeneralOptions(server) {
		w.Header().Set("Content-Length", "0")
		return
	}
	handler.ServeHTTP(w, r)
	if r.MultipartForm != nil {
		_ = r.MultipartForm.RemoveAll()
	}
}

// end lets the connection's next request begin, and reports this one.
func (x *exchange) end(report done, began time.Time, t *turn) {
	now := time.Now()
	took := now.Sub(began)
	report.serviceUS = 1<<32 - 1
	if us := took.Microseconds(); us < 1<<32-1 {
		report.serviceUS = uint32(us)
	}
	c := x.channel
	x.connection.next()
	c.reports.done(x.connection.number, x.id, report, now, t.delays(took, now))
	c.requests.Done()
	t.ended(now)
}

func (x *exchange) closeBody() {
	if x.bodyFile != nil {
		x.bodyFile.Close()
	}
}

func (x *exchange) logPanic(value any) {
	if value == nil || value == http.ErrAbortHandler {
		return
	}
	stack := make([]byte, 64<<10)
	stack = stack[:runtime.Stack(stack, false)]
	x.channel.logf("http: panic serving %v: %v\n%s", x.meta.remote, value, stack)
}
