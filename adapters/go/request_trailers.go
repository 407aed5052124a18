package maitred

import (
	"net/http"
	"strings"
)

// trailed are the fields that a client has sent behind a body, until its REQUEST has come, which is the next frame.
type trailed struct {
	connection, request uint32
	fields              http.Header
}

// belongTo says whether this frame is their REQUEST.
func (t *trailed) belongTo(h header) bool {
	return h.kind == kindRequest && h.connection == t.connection && h.request == t.request && h.flags&flagMayDetach == 0
}

// parseTrailers reads the payload of TRAILERS: lines "name: value", which Maitred has written.
func parseTrailers(text string) (http.Header, error) {
	fields := make(http.Header)
	for count := 0; count == 0 || text != ""; count++ {
		line, rest, found := strings.Cut(text, "\r\n")
		name, value, found2 := strings.Cut(line, ": ")
		if !found || !found2 || !isLowerToken(name) || strings.ContainsAny(value, "\r\n\x00") || count == trailersMax {
			return nil, violation("TRAILERS that are not 1 to %d fields", trailersMax)
		}
		name = canonical(name)
		fields[name] = append(fields[name], value)
		text = rest
	}
	return fields, nil
}

// isLowerToken says whether a text is a token (RFC 9110, section 5.6.2) without capitals.
func isLowerToken(text string) bool {
	for i := 0; i < len(text); i++ {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return text != ""
}

// setTrailers gives the request its trailers as net/http does: the names at once, the values when the body was read. They stand
// behind a body in chunks only, whose length is not known.
func (x *exchange) setTrailers(r *http.Request) {
	if x.trailers == nil {
		return
	}
	r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
	delete(r.Header, "Content-Length")
	r.Trailer = make(http.Header, len(x.trailers))
	for name := range x.trailers {
		r.Trailer[name] = nil
	}
	r.Body = &body{source: r.Body, trailers: x.trailers, known: r.Trailer}
}
