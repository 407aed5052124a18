package maitred

import (
	"fmt"
	"net/http"
	"net/textproto"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// headState is what the head of a response says about the rest.
type headState struct {
	complete   bool
	chunked    bool
	untilClose bool // only the end of the connection ends the body
	bodiless   bool

	hasType, hasEncoding, hasDate, hasServer bool
	upgrades                                 bool // there is a field Upgrade

	trailers      []string // names that were announced
	sendsTrailers bool
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// writeFields writes the status line and the handler's fields, as they are now: later changes do not count, as in net/http.
func (w *response) writeFields() {
	w.appendStatusLine(w.status)
	var room [16]field
	hop := named(w.fields)
	for _, field := range sortedFields(w.fields, room[:0]) {
		if !w.look(field.name, field.values) || hop[field.name] && !drop(field.name) {
			continue
		}
		for _, value := range field.values {
			if !w.appendField(field.name, value) {
				w.refuseField(field.name, value)
				return
			}
		}
	}
}

// field is a name of a header with its values.
type field struct {
	name   string
	values []string
}

// sortedFields are the fields of a response, in the order of net/http.
func sortedFields(fields http.Header, room []field) []field {
	if len(fields) > cap(room) {
		for _, name := range sortedNames(fields, nil) {
			room = append(room, field{name, fields[name]})
		}
		return room
	}
	for name, values := range fields {
		room = append(room, field{name, values})
		for i := len(room) - 1; i > 0 && room[i].name < room[i-1].name; i-- {
			room[i], room[i-1] = room[i-1], room[i]
		}
	}
	return room
}

func (w *response) refuseField(name, value string) {
	w.refuse(fmt.Sprintf("the field %q: %q cannot be sent", name, value))
}

func (w *response) appendStatusLine(status int) {
	w.out = append(w.out, "HTTP/1.1 "...)
	w.out = strconv.AppendInt(w.out, int64(status), 10)
	w.out = append(w.out, ' ')
	if text := http.StatusText(status); text != "" {
		w.out = append(w.out, text...)
	} else {
		w.out = append(w.out, "status code "...)
		w.out = strconv.AppendInt(w.out, int64(status), 10)
	}
	w.out = append(w.out, '\r', '\n')
}

// sortedNames are the names of fields, in the order of net/http.
func sortedNames(fields http.Header, room []string) []string {
	for name := range fields {
		room = append(room, name)
	}
	sort.Strings(room)
	return room
}

// look notes what a field means for the response, and says whether it is sent as it is.
func (w *response) look(name string, values []string) bool {
	h := &w.head
	key := name
	if name != "Content-Type" && name != "Content-Length" {
		key = textproto.CanonicalMIMEHeaderKey(name)
	}
	switch key {
	case "Upgrade":
		h.upgrades = h.upgrades || w.offersUpgrade()
		return w.offersUpgrade() || drop(key)
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Transfer-Encoding":
		return drop(key)
	case "Content-Length":
		w.stateLength(values)
		return false
	case "Content-Type":
		h.hasType = true
		return w.status != http.StatusNotModified
	case "Content-Encoding":
		h.hasEncoding = len(values) > 0 && values[0] != ""
	case "Date":
		h.hasDate = true
	case "Server":
		h.hasServer = true
	case "Trailer":
		h.sendsTrailers = true
		for _, value := range values {
			h.announce(value)
		}
		return false
	case "X-Sendfile":
		root := w.x.meta.sendfileRoot
		if root != "" && len(values) > 0 {
			w.nameFile(root, values[0])
		}
		return root == ""
	}
	if strings.HasPrefix(name, http.TrailerPrefix) {
		h.sendsTrailers = true
		return false
	}
	return true
}

// offersUpgrade says that the response may name protocols: the field Upgrade is part of what it means (RFC 9110, sections
// 15.2.2 and 15.5.22).
func (w *response) offersUpgrade() bool {
	return w.status == http.StatusUpgradeRequired || w.status == http.StatusSwitchingProtocols
}

// droppedMax bounds the names that are kept: a handler may take them from its client.
const droppedMax = 64

// dropped are names of fields that were not sent because they concern the connection, which is Maitred's.
var (
	dropped      sync.Map
	droppedCount atomic.Int32
)

// drop says once in the life of the process that a field is not sent; it returns false.
func drop(name string) bool {
	if _, said := dropped.Load(name); said || droppedCount.Load() >= droppedMax {
		return false
	}
	if _, said := dropped.LoadOrStore(name, true); !said {
		droppedCount.Add(1)
		debug("maitred: a response's field concerns the connection, and is not sent", "field", name)
	}
	return false
}

// named are the names that the field Connection lists: what they name concerns the connection as well (RFC 9110, section
// 7.6.1). Nil if there are none but the usual.
func named(fields http.Header) map[string]bool {
	var found map[string]bool
	for _, list := range fields["Connection"] {
		found = namedIn(found, list)
	}
	return found
}

func namedIn(found map[string]bool, list string) map[string]bool {
	for _, name := range strings.Split(list, ",") {
		switch name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name)); name {
		case "", "Close", "Keep-Alive", "Upgrade":
		default:
			if found == nil {
				found = make(map[string]bool)
			}
			found[name] = true
		}
	}
	return found
}

func (w *response) stateLength(values []string) {
	if len(values) == 0 || values[0] == "" || w.sendfile != nil {
		return
	}
	length, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || length < 0 {
		w.x.channel.logf("http: invalid Content-Length of %q", values[0])
		w.fields.Del("Content-Length")
		return
	}
	w.contentLength = length
}

// appendField writes one line; false if it must not be sent.
func (w *response) appendField(name, value string) bool {
	if !isToken(name) || strings.ContainsAny(value, "\r\n\x00") {
		return false
	}
	w.out = append(w.out, name...)
	w.out = append(w.out, ':', ' ')
	w.out = append(w.out, textproto.TrimString(value)...)
	w.out = append(w.out, '\r', '\n')
	return true
}

// isToken says whether a field can have this name (RFC 9110, section 5.6.2).
func isToken(name string) bool {
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return name != ""
}

// completeHead decides the framing; first is the body so far: all of it, if the handler has returned.
func (w *response) completeHead(first []byte) {
	h := &w.head
	h.complete = true
	isHead := w.x.flags&flagHead != 0
	allowed := bodyAllowed(w.status)
	if w.over && w.contentLength < 0 && !h.sendsTrailers && allowed && (!isHead || len(first) > 0) {
		w.contentLength = int64(len(first))
	}
	if allowed && !h.hasType && !h.hasEncoding && len(first) > 0 {
		w.out = append(append(w.out, "Content-Type: "...), http.DetectContentType(first)...)
		w.out = append(w.out, '\r', '\n')
	}
	if !h.hasDate {
		w.out = appendDate(w.out, w.began)
	}
	if !h.hasServer && w.x.meta.serverHeader != "0" {
		w.out = append(w.out, "Server: maitred\r\n"...)
	}
	if w.contentLength >= 0 && allowed {
		w.out = append(w.out, "Content-Length: "...)
		w.out = append(strconv.AppendInt(w.out, w.contentLength, 10), '\r', '\n')
	}
	http10 := w.x.flags&flagHTTP10 != 0
	switch {
	case isHead || !allowed:
		h.bodiless = true
	case w.contentLength >= 0:
	case http10:
		h.untilClose = true
	default:
		h.chunked = true
		w.out = append(w.out, "Transfer-Encoding: chunked\r\n"...)
	}
	w.announceTrailers()
	w.appendConnection(http10)
	w.out = append(w.out, '\r', '\n')
}

// appendConnection says what becomes of the connection, and that Upgrade concerns it.
func (w *response) appendConnection(http10 bool) {
	ends := w.status != http.StatusSwitchingProtocols && (w.x.flags&flagKeep == 0 || w.head.untilClose)
	switch {
	case ends && w.head.upgrades:
		w.out = append(w.out, "Connection: close, upgrade\r\n"...)
	case ends:
		w.out = append(w.out, "Connection: close\r\n"...)
	case w.head.upgrades:
		w.out = append(w.out, "Connection: Upgrade\r\n"...)
	case http10:
		w.out = append(w.out, "Connection: keep-alive\r\n"...)
	}
}

// dateLine is the field Date of one second.
type dateLine struct {
	second int64
	line   []byte
}

var lastDate atomic.Pointer[dateLine]

func appendDate(out []byte, now time.Time) []byte {
	date := lastDate.Load()
	if date == nil || date.second != now.Unix() {
		date = &dateLine{now.Unix(), []byte("Date: " + now.UTC().Format(http.TimeFormat) + "\r\n")}
		lastDate.Store(date)
	}
	return append(out, date.line...)
}
