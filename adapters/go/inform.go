package maitred

import (
	"net/http"
	"net/textproto"
	"strings"
)

const (
	// informBytesMax and informMax are the protocol's: bytes of one informational response, and how many a request may have.
	informBytesMax = 16 << 10
	informMax      = 16
)

// inform sends an informational response (103 Early Hints, for one) with the handler's fields as they are now, as net/http does.
// It is dropped where the client may not have it, and so is 100: Maitred has answered Expect already.
func (w *response) inform(status int) {
	x := w.x
	if status == http.StatusContinue || w.err != nil || x.flags&flagHTTP10 != 0 || x.meta.earlyHints != "1" {
		return
	}
	kept := len(w.out)
	w.appendStatusLine(status)
	complete := w.appendInformation()
	head := w.out[kept:]
	w.out = w.out[:kept]
	if !complete || len(head) > informBytesMax || w.informed == informMax {
		debug("maitred: an informational response is not sent", "status", status, "bytes", len(head), "before", w.informed)
		return
	}
	w.informed++
	w.send(head, false, false)
	if w.err == nil {
		// Nothing of the response itself was sent: it may still become another one.
		w.sent = false
	} else if w.sent {
		// A part of it: nothing else may follow.
		w.status = status
	}
}

// appendInformation writes the fields that may stand in an informational response, and the empty line; false if one cannot be
// sent.
func (w *response) appendInformation() bool {
	var room [16]string
	hop := named(w.fields)
	for _, name := range sortedNames(w.fields, room[:0]) {
		if hop[name] || w.notInformation(name) {
			continue
		}
		for _, value := range w.fields[name] {
			if !w.appendField(name, value) {
				return false
			}
		}
	}
	w.out = append(w.out, '\r', '\n')
	return true
}

// notInformation says that a field is about the connection or the body.
func (w *response) notInformation(name string) bool {
	switch textproto.CanonicalMIMEHeaderKey(name) {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Transfer-Encoding", "Upgrade", "Trailer", "Content-Length":
		return true
	case "X-Sendfile":
		return w.x.meta.sendfileRoot != ""
	}
	return strings.HasPrefix(name, http.TrailerPrefix)
}
