// Package maitred serves an [http.Handler] behind the web server Maitred.
//
// Maitred accepts the connections, reads and checks the requests, and hands each to this process together with a
// descriptor; the response goes from here into the client's socket. There is no listener, no second connection and
// no HTTP parser in between. What the handler sees is what it sees with net/http.
//
// One line changes, and the program still runs by itself:
//
//	err := maitred.ListenAndServe(":8080", handler) // started by Maitred: ":8080" is not used
//
// In maitred.toml:
//
//	[pool.web]
//	command = ["./app"]
//	workers = 1
//
// One process is enough: requests run at the same time, in goroutines that are used again, and on all CPUs. A handler that locks
// its thread, or sets labels of its goroutine, has to undo it, as with net/http.
//
// # What a handler can do
//
// The [http.ResponseWriter] is also an [http.Flusher], an [http.Hijacker] (for requests that ask for an upgrade, such as
// WebSocket), an [io.ReaderFrom] and an [io.StringWriter]; http.ResponseController works with it. The request's context ends
// when the client has gone, or the request was silent for the pool's request_timeout. A request's body is there as a whole
// before the handler runs: in memory, or, if it is large, as a file that Maitred has written.
//
// A client that reads slowly holds a goroutine only as long as the handler has more to write than one piece:
//
//   - what is left of a response when the handler returns goes back to Maitred, which delivers it;
//   - so does the rest of a write that completes a response of stated Content-Length;
//   - so does a file of more than 64 KiB that completes a response of stated Content-Length ([io.Copy],
//     [http.ServeFile], [http.ServeContent]), or that is named by the response field X-Sendfile and lies below the pool's
//     sendfile_root: no byte of it passes through this process, and its content must not be changed in place afterwards;
//   - other writes wait for the client, as with net/http.
//
// # Differences from net/http
//
//   - The fields Connection, what it names, Keep-Alive, Proxy-Connection, TE, Transfer-Encoding and Upgrade of a response are
//     not sent: they are Maitred's. Upgrade is sent with 101 and 426. Those of a request are not seen, except by a handler that
//     can take the connection over.
//   - A field name that is no token, or a value with CR, LF or NUL, makes the response a 500. net/http leaves out the one and
//     writes a space for the other.
//   - A handler that panics before anything was sent is answered with 500; net/http closes the connection without an
//     answer. Panicking with [http.ErrAbortHandler] breaks the response off here, too; if nothing was sent yet, Maitred
//     answers 502.
//   - A write that exceeds the stated Content-Length is cut there, and not left out as a whole.
//   - The length of a request's body is always known: [http.Request.ContentLength] is -1 only if the client has sent trailers.
//     Then the request looks as one in chunks, and [http.Request.Trailer] has the names at once, and the values when the body was
//     read to its end; whether the client has announced them makes no difference.
//   - Informational responses (WriteHeader with 103, for one) are sent only to clients that may have them: the pool's key
//     early_hints. 100 is Maitred's.
//   - A connection that was taken over is a [net.TCPConn] only on the client's own socket. By a relay (TLS, HTTP/2) it is one
//     end of a socketpair, with the client's addresses.
//   - Timeouts and limits of [http.Server] have no effect: they are Maitred's, in maitred.toml.
//   - [http.Request.TLS] says that there is TLS, and no more.
//   - Below a mount (mount = "/app" in the route's pool), r.URL.Path is what follows it, as with [http.StripPrefix]; [Mount]
//     returns it.
//   - [User] returns the user whom basic_auth, jwt or forward_auth of Maitred's site or route has found.
//   - Trailers of a response, and its field Trailer, are sent to clients of HTTP/2, and to those of HTTP/1.1 that send
//     "TE: trailers"; the others do not get them. Of one response there are at most 32, of 8190 bytes together, and none that
//     may not stand there (RFC 9110, section 6.5.1), also with [http.TrailerPrefix].
package maitred
