package maitredfasthttp

import (
	"context"
	"log"
	"strings"

	"github.com/valyala/fasthttp"

	"maitred"
	"maitred/internal/front"
)

// Serve answers the requests that Maitred sends, until Maitred asks this process to end; then it finishes what it has begun, and
// returns nil. It returns an error that wraps maitred.ErrNotStartedByMaitred if there is no Maitred.
func Serve(handler fasthttp.RequestHandler) error {
	server := Server{HTTP: &fasthttp.Server{Handler: handler}}
	return server.Serve()
}

// ListenAndServe does the same as Serve if Maitred has started this process, and the same as fasthttp.ListenAndServe if not.
func ListenAndServe(addr string, handler fasthttp.RequestHandler) error {
	server := Server{HTTP: &fasthttp.Server{Handler: handler}}
	return server.ListenAndServe(addr)
}

// Server is for programs that need more than a handler.
type Server struct {
	// HTTP is the server as the program would use it without Maitred. Handler, Name, Logger and NoDefaultContentType mean what they
	// mean there.
	HTTP *fasthttp.Server

	// Capacity is how many requests Maitred is to send at a time: that of maitred.Server.
	Capacity int
}

// Serve is like the function Serve.
func (s *Server) Serve() error {
	if s.HTTP.Logger == nil {
		s.HTTP.Logger = log.Default()
	}
	f := &handlerFront{server: s.HTTP}
	return front.Serve(front.Options{
		Name: "go fasthttp", Capacity: s.Capacity, ErrorLog: log.New(lines{s.HTTP.Logger}, "", 0), Handle: f.handle,
	})
}

// ListenAndServe is like the function ListenAndServe.
func (s *Server) ListenAndServe(addr string) error {
	if maitred.Started() {
		return s.Serve()
	}
	return s.HTTP.ListenAndServe(addr)
}

// lines writes what package log writes to a logger of fasthttp.
type lines struct{ to fasthttp.Logger }

func (l lines) Write(text []byte) (int, error) {
	l.to.Printf("%s", strings.TrimSuffix(string(text), "\n"))
	return len(text), nil
}

// Context returns a context that ends with the request, and when its client has gone. Without Maitred it is ctx.
func Context(ctx *fasthttp.RequestCtx) context.Context {
	if x := exchangeOf(ctx); x != nil {
		return x.Context()
	}
	return ctx
}

// Mount returns the leading part of the path at which Maitred has mounted the application, such as "/app", or "".
func Mount(ctx *fasthttp.RequestCtx) string {
	if x := exchangeOf(ctx); x != nil {
		return x.Mount()
	}
	return ""
}

// User returns the user whom basic_auth, jwt or forward_auth of Maitred's site or route has found, as maitred.User does.
func User(ctx *fasthttp.RequestCtx) (name, scheme string, ok bool) {
	if x := exchangeOf(ctx); x != nil {
		name, scheme = x.User()
	}
	if name == "" {
		return "", "", false
	}
	return name, scheme, true
}

func exchangeOf(ctx *fasthttp.RequestCtx) front.Exchange {
	switch c := ctx.Conn().(type) {
	case *conn:
		return c.x
	case secure:
		return c.x
	}
	return nil
}
