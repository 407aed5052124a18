package maitred

import (
	"bytes"
	"net/http"
	"strings"
)

const (
	// knownBytesMax bounds what is kept of a head for each connection.
	knownBytesMax = 4096
	// unlikeMax is how many heads in a row may differ from the one before them until only some are kept.
	unlikeMax, unlikeAgain = 8, 64
)

// ownFields begins the fields that Maitred adds behind those of the client (PROTOCOL.md, section 4). What stands before them is
// the same for like requests.
const ownFields = "x-request-id: "

// knownHead is what the fields of a connection's last request were. It is never changed, only replaced.
type knownHead struct {
	text  string // the lines before ownFields
	lines []field
	count int // of values
	host  string
	read  bool // what is above; that is done when a second request has the same text
}

// headOf is the head of a request: without the fields that are known, which are returned, or as a whole.
func (k *connection) headOf(head []byte, room *[]byte) (text string, known *knownHead) {
	first := bytes.IndexByte(head, '\n') + 1
	if known = k.known.Load(); known != nil {
		rest := head[first:]
		if len(rest) > len(known.text) && string(rest[:len(known.text)]) == known.text {
			if rest = rest[len(known.text):]; len(rest) > len(ownFields) && string(rest[:len(ownFields)]) == ownFields {
				k.unlike = 0
				*room = append(append((*room)[:0], head[:first]...), rest...)
				return string(*room), known
			}
		}
	}
	text = string(head)
	if k.unlike++; k.unlike <= unlikeMax || k.unlike%unlikeAgain == 0 {
		if end := strings.Index(text, "\n"+ownFields) + 1; end > first && end-first <= knownBytesMax {
			k.known.Store(&knownHead{text: strings.Clone(text[first:end])})
		}
	}
	return text, nil
}

// learn keeps what the fields of a text are.
func (k *connection) learn(known *knownHead, fields http.Header, host string) {
	learned := &knownHead{text: known.text, host: host, read: true, lines: make([]field, 0, len(fields))}
	for name, values := range fields {
		learned.lines = append(learned.lines, field{name, append([]string(nil), values...)})
		learned.count += len(values)
	}
	k.known.CompareAndSwap(known, learned)
}
