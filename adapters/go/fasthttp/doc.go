// Package maitredfasthttp serves a handler of fasthttp (github.com/valyala/fasthttp) behind the web server Maitred.
//
// It is a module of its own, so that package maitred, which serves a handler of net/http, depends on the standard library only.
// One line changes, and the program still runs by itself:
//
//	err := maitredfasthttp.ListenAndServe(":8080", handler) // started by Maitred: ":8080" is not used
//
// What package maitred says of slow clients, files, bodies and the end of the process holds here, too. As with a server of
// fasthttp, neither the RequestCtx nor what it returns may be used when the handler has returned.
//
// # Differences from a server of fasthttp
//
//   - A connection cannot be taken over: after [fasthttp.RequestCtx.Hijack] the response is a 500. WebSockets need a handler of
//     net/http.
//   - A handler that panics is answered with 500, or its response is broken off; the process goes on.
//   - RequestCtx.Done ends no request; the context that [Context] returns ends when the client has gone.
//   - A body that is larger than what Maitred sends over the channel is a stream (RequestCtx.RequestBodyStream), which
//     RequestCtx.PostBody reads. Trailers of a request are not passed on.
//   - A body stream whose length is not stated leaves in chunks, each as it is read. One that fails, or ends before its stated
//     length, breaks the response off. Trailers are sent to clients that take them.
//   - A response to a client that has gone is dropped.
//   - Below a mount, RequestCtx.Path is what follows it; [Mount] returns it.
//   - Connection numbers are those of requests, and RequestCtx.ConnRequestNum is 0.
//   - Of [fasthttp.Server] only Handler, Name, Logger and NoDefaultContentType mean something: timeouts and limits are Maitred's.
package maitredfasthttp
