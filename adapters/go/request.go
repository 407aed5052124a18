package maitred

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

var errHead = errors.New("maitred: not a request head")

func tcpAddress(text string) net.Addr {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return &net.TCPAddr{}
	}
	number, _ := strconv.Atoi(port)
	return &net.TCPAddr{IP: net.ParseIP(host), Port: number}
}

// newRequest makes of a REQUEST what net/http makes of bytes.
func (x *exchange) newRequest(ctx context.Context) (*http.Request, error) {
	line, fields, found := strings.Cut(x.head, "\r\n")
	method, line, found2 := strings.Cut(line, " ")
	target, _, found3 := strings.Cut(line, " ")
	if !found || !found2 || !found3 {
		return nil, errHead
	}
	address, err := x.address(target)
	if err != nil {
		return nil, err
	}
	// WithContext copies it; nobody else sees this one.
	r := http.Request{
		Method: method, URL: address, RequestURI: target,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		RemoteAddr: x.meta.remote,
		Body:       http.NoBody,
	}
	if x.flags&flagHTTP10 != 0 {
		r.Proto, r.ProtoMinor = "HTTP/1.0", 0
	}
	r.Close = x.flags&flagKeep == 0
	if r.Header, r.Host, err = x.fields(fields); err != nil {
		return nil, err
	}
	if mount := x.meta.mount; mount != "" {
		unmount(address, mount)
	}
	if x.meta.scheme == "https" {
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			name = r.Host
		}
		r.TLS = &tls.ConnectionState{HandshakeComplete: true, ServerName: name}
	}
	if err := x.setBody(&r); err != nil {
		return nil, err
	}
	x.setTrailers(&r)
	return r.WithContext(ctx), nil
}

// plain are the bytes of a path that mean themselves, and that package url does not escape: a path of them has one form.
var plain = func() (table [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/-_.~$&+,:;=@" {
		table[c] = true
	}
	return table
}()

// address is what url.ParseRequestURI makes of a target. Most need none of its cases.
func (x *exchange) address(target string) (*url.URL, error) {
	end := 0
	for end < len(target) && plain[target[end]] {
		end++
	}
	if end == 0 || target[0] != '/' {
		return url.ParseRequestURI(target)
	}
	if end < len(target) {
		query := target[end+1:]
		if target[end] != '?' || query == "" || !visible(query) {
			return url.ParseRequestURI(target)
		}
		x.url.RawQuery = query
	}
	x.url.Path = target[:end]
	return &x.url, nil
}

// visible says that there are no control characters, which package url refuses.
func visible(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] < ' ' || text[i] == 0x7f {
			return false
		}
	}
	return true
}

// fields reads the fields of the request, and takes out Host.
func (x *exchange) fields(text string) (fields http.Header, host string, err error) {
	// Neither Host nor the empty line is one.
	count := strings.Count(text, "\n") - 1
	known := x.known
	if known == nil {
		known = &knownNothing
		count--
	}
	if known.read {
		count += known.count
	} else {
		count += strings.Count(known.text, "\n") - 1
	}
	if count < 0 {
		count = 0
	}
	p := fieldParser{fields: make(http.Header, count), values: make([]string, count)}
	if known.read {
		p.host = known.host
		for i := range known.lines {
			p.addAll(&known.lines[i])
		}
	} else if known != &knownNothing {
		if rest, ok := p.parse(known.text); !ok || rest != "" {
			return nil, "", errHead
		}
		x.connection.learn(known, p.fields, p.host)
	}
	if rest, ok := p.parse(text); !ok || rest != "\r\n" {
		return nil, "", errHead
	}
	// As net/http does, for clients of HTTP/1.0.
	if pragma := p.fields["Pragma"]; len(pragma) > 0 && pragma[0] == "no-cache" && p.fields["Cache-Control"] == nil {
		p.fields["Cache-Control"] = []string{"no-cache"}
	}
	return p.fields, p.host, nil
}

// knownNothing stands where no fields are known.
var knownNothing = knownHead{}

// fieldParser makes a header of lines "name: value", which Maitred has written.
type fieldParser struct {
	fields http.Header
	values []string // room: most names stand once, and one array holds the values of all
	host   string
}

// parse reads lines up to an empty one, which is returned with what follows, or to the end.
func (p *fieldParser) parse(text string) (rest string, ok bool) {
	for text != "" {
		end := strings.IndexByte(text, '\n')
		if end <= 0 || text[end-1] != '\r' {
			return "", false
		}
		if end == 1 {
			break
		}
		line := text[:end-1]
		text = text[end+1:]
		colon := strings.IndexByte(line, ':')
		if colon < 0 {
			return "", false
		}
		name, value := line[:colon], line[colon+1:]
		if value != "" {
			if value[0] != ' ' {
				return "", false
			}
			value = value[1:]
		}
		if name == "host" {
			p.host = value
			continue
		}
		name = canonical(name)
		if before := p.fields[name]; before != nil {
			p.fields[name] = append(before, value)
			continue
		}
		room := p.take(1)
		room[0] = value
		p.fields[name] = room
	}
	return text, true
}

// addAll adds a field with its values, which are copied: they are the handler's.
func (p *fieldParser) addAll(known *field) {
	room := p.take(len(known.values))
	copy(room, known.values)
	p.fields[known.name] = room
}

// take is room for so many values.
func (p *fieldParser) take(count int) []string {
	// There is always a Host; who relies on it would panic without.
	if len(p.values) < count {
		p.values = make([]string, count)
	}
	room := p.values[:count:count]
	p.values = p.values[count:]
	return room
}

// unmount takes the mount from the front of the path, as http.StripPrefix does.
func unmount(address *url.URL, mount string) {
	plain, err := url.PathUnescape(mount)
	if err != nil {
		return
	}
	below := strings.TrimPrefix(address.Path, plain)
	if len(below) == len(address.Path) || below != "" && below[0] != '/' {
		return
	}
	address.RawPath = strings.TrimPrefix(address.RawPath, mount)
	if address.Path = below; below == "" {
		address.Path = "/"
	}
}

func (x *exchange) setBody(r *http.Request) error {
	text := r.Header["Content-Length"]
	if x.flags&flagMayDetach != 0 || len(text) == 0 {
		return nil
	}
	length, err := strconv.ParseInt(text[0], 10, 64)
	if err != nil || length < 0 {
		return errHead
	}
	r.ContentLength = length
	switch {
	case x.bodyFile != nil:
		r.Body = &body{source: io.NewSectionReader(x.bodyFile, 0, length)}
	case length > 0:
		r.Body = &body{source: bytes.NewReader(x.body)}
	}
	return nil
}

// body is a request's body, all of which is here.
type body struct {
	source io.Reader
	closed atomic.Bool

	// trailers go to known when all was read.
	ended           sync.Once
	trailers, known http.Header
}

func (b *body) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.source.Read(p)
	if err == io.EOF && b.trailers != nil {
		b.ended.Do(func() {
			for name, values := range b.trailers {
				b.known[name] = values
			}
		})
	}
	return n, err
}

func (b *body) Close() error {
	b.closed.Store(true)
	return nil
}

// namesMax bounds names: clients choose them.
const namesMax = 256

// names maps names of fields to their canonical form. It is replaced as a whole, so that readers need no lock.
var (
	names   atomic.Pointer[map[string]string]
	namesMu sync.Mutex
)

func canonical(name string) string {
	known := names.Load()
	if known != nil {
		if found, ok := (*known)[name]; ok {
			return found
		}
	}
	made := textproto.CanonicalMIMEHeaderKey(name)
	if known == nil || len(*known) < namesMax {
		remember(strings.Clone(name), strings.Clone(made))
	}
	return made
}

func remember(name, made string) {
	namesMu.Lock()
	defer namesMu.Unlock()
	larger := map[string]string{name: made}
	if known := names.Load(); known != nil {
		for key, value := range *known {
			larger[key] = value
		}
	}
	names.Store(&larger)
}
