package maitred

import "strings"

// metaLines is what Maitred says of a request besides its head (PROTOCOL.md, section 4). It is never changed: requests of one
// connection share it.
type metaLines struct {
	text string // the lines that are the same for every request of the connection

	remote, local, scheme, mount, earlyHints, trailers, sendfileRoot, user, authType, serverHeader string
}

// queueKey begins the line that differs from request to request. It is the last one, and nothing here needs it.
const queueKey = "queue_us="

// metaOf reads lines key=value. known is what was read before, of the same connection: it is returned if it says the same.
func metaOf(lines []byte, known *metaLines) *metaLines {
	if known != nil && len(lines) >= len(known.text) && string(lines[:len(known.text)]) == known.text {
		if rest := lines[len(known.text):]; len(rest) == 0 || isQueueLine(rest) {
			return known
		}
	}
	text := string(lines)
	if last := strings.LastIndexByte(strings.TrimSuffix(text, "\n"), '\n') + 1; strings.HasPrefix(text[last:], queueKey) {
		text = strings.Clone(text[:last])
	}
	return parseMeta(text)
}

// isQueueLine says that nothing follows but the time in the queue.
func isQueueLine(rest []byte) bool {
	if len(rest) < len(queueKey) || string(rest[:len(queueKey)]) != queueKey {
		return false
	}
	for i, c := range rest {
		if c == '\n' {
			return i == len(rest)-1
		}
	}
	return true
}

func parseMeta(text string) *metaLines {
	m := &metaLines{text: text}
	for len(text) > 0 {
		line, rest, _ := strings.Cut(text, "\n")
		text = rest
		key, value, _ := strings.Cut(line, "=")
		if place := m.place(key); place != nil && *place == "" {
			*place = value
		}
	}
	return m
}

func (m *metaLines) place(key string) *string {
	switch key {
	case "remote":
		return &m.remote
	case "local":
		return &m.local
	case "scheme":
		return &m.scheme
	case "mount":
		return &m.mount
	case "early_hints":
		return &m.earlyHints
	case "trailers":
		return &m.trailers
	case "sendfile_root":
		return &m.sendfileRoot
	case "user":
		return &m.user
	case "auth_type":
		return &m.authType
	case "server_header":
		return &m.serverHeader
	}
	return nil
}
