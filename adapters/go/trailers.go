package maitred

import (
	"net/http"
	"net/textproto"
	"strings"
)

const (
	// trailersMax and trailerBytesMax are the protocol's: fields behind the content of one response, and their bytes.
	trailersMax     = 32
	trailerBytesMax = 8190
)

// notTrailers are fields that mean something else, or nothing, behind content (RFC 9110, section 6.5.1): NOT_IN_TRAILERS of the
// crate maitred-handoff, and what net/http has besides.
var notTrailers = map[string]bool{
	"Connection": true, "Content-Length": true, "Host": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Authentication-Info": true, "Authorization": true, "Cookie": true, "Forwarded": true, "Proxy-Authenticate": true,
	"Proxy-Authentication-Info": true, "Proxy-Authorization": true, "Set-Cookie": true, "Www-Authenticate": true,
	"X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Proto": true,
	"Cache-Control": true, "Expect": true, "Max-Forwards": true, "Pragma": true, "Priority": true, "Range": true,
	"Age": true, "Date": true, "Expires": true, "Location": true, "Retry-After": true, "Vary": true, "Warning": true,
	"Content-Disposition": true, "Content-Encoding": true, "Content-Language": true, "Content-Location": true,
	"Content-Range": true, "Content-Type": true, "Realm": true,
}

// isForTrailers says whether a field of this name, in its canonical form, may stand behind content.
func isForTrailers(name string) bool {
	return name != "" && !strings.HasPrefix(name, "If-") && !notTrailers[name]
}

// announce notes names of trailers.
func (h *headState) announce(list string) {
	for _, name := range strings.Split(list, ",") {
		name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))
		if isForTrailers(name) {
			h.trailers = append(h.trailers, name)
		}
	}
}

// takesTrailers says whether the client of a response in chunks gets its trailers.
func (w *response) takesTrailers() bool {
	return w.head.chunked && w.x.meta.trailers == "1"
}

// announceTrailers writes the field Trailer, once the framing is known.
func (w *response) announceTrailers() {
	if len(w.head.trailers) == 0 {
		return
	}
	if !w.takesTrailers() {
		drop("Trailer")
		return
	}
	w.out = append(append(w.out, "Trailer: "...), strings.Join(w.head.trailers, ", ")...)
	w.out = append(w.out, '\r', '\n')
}

// appendTrailers writes the fields that were announced, and those with http.TrailerPrefix. What cannot be sent is left
// out, and so are all of them if they are too many: it is too late for an error.
func (w *response) appendTrailers() {
	if !w.head.sendsTrailers || !w.takesTrailers() {
		return
	}
	start, count := len(w.out), 0
	add := func(name string, values []string) {
		for _, value := range values {
			if count <= trailersMax && len(w.out)-start <= trailerBytesMax && w.appendField(name, value) {
				count++
			}
		}
	}
	for _, name := range w.head.trailers {
		add(name, w.fields[name])
	}
	for name, values := range w.fields {
		if !strings.HasPrefix(name, http.TrailerPrefix) {
			continue
		}
		if name = strings.TrimPrefix(name, http.TrailerPrefix); isForTrailers(textproto.CanonicalMIMEHeaderKey(name)) {
			add(name, values)
		}
	}
	if bytes := len(w.out) - start; count > trailersMax || bytes > trailerBytesMax {
		debug("maitred: trailers are not sent: they are too many", "fields", count, "bytes", bytes)
		w.out = w.out[:start]
	}
}
