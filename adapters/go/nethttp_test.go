package maitred

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"
)

// handlers are what an application may do; each answers the same way with net/http and here.
func handlers(t *testing.T) map[string]http.HandlerFunc {
	name := filepath.Join(t.TempDir(), "file.txt")
	if err := os.WriteFile(name, bytes.Repeat([]byte("file "), 40000), 0o600); err != nil {
		t.Fatal(err)
	}
	made := map[string]http.HandlerFunc{
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"small":   func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "small") },
		"html":    func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<!DOCTYPE html><p>é") },
		"in two writes": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "<!DOC")
			io.WriteString(w, "TYPE html>")
		},
		"flushed": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "one")
			w.(http.Flusher).Flush()
			io.WriteString(w, "two")
		},
		"flushed first": func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); io.WriteString(w, "x") },
		"stated": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			io.WriteString(w, "12345")
		},
		"typed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("content-type", "x/y")
			io.WriteString(w, "<html>")
		},
		"no type wanted": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			io.WriteString(w, "<html>")
		},
		"encoded": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, "<html>")
		},
		"repeated fields": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Add("Set-Cookie", "a=1")
			w.Header().Add("Set-Cookie", "b=2")
			w.Header()["lower-case"] = []string{"  spaces  "}
		},
		"changed too late": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-A", "1")
			w.WriteHeader(202)
			w.Header().Set("X-A", "2")
			w.Header().Set("X-B", "2")
			w.WriteHeader(500)
		},
		"error":     func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 418) },
		"unnamed":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(599) },
		"redirect":  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", 302) },
		"not found": http.NotFound,
		"trailers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			io.WriteString(w, "body")
			w.Header().Set("X-Sum", "42")
			w.Header().Set(http.TrailerPrefix+"X-Late", "yes")
		},
		"body": func(w http.ResponseWriter, r *http.Request) {
			data, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%q %v %d", data, err, r.ContentLength)
		},
		"body too large": func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 3))
			fmt.Fprint(w, err)
		},
		"body closed": func(w http.ResponseWriter, r *http.Request) {
			r.Body.Close()
			_, err := r.Body.Read(make([]byte, 1))
			fmt.Fprint(w, err)
		},
		"form": func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.FormValue("a"), r.PostForm) },
		"file": func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, name) },
		"copied file": func(w http.ResponseWriter, _ *http.Request) {
			file, _ := os.Open(name)
			defer file.Close()
			w.Header().Set("Content-Length", "150005")
			io.WriteString(w, "first")
			fmt.Fprint(w, "")
			n, err := io.Copy(w, io.LimitReader(file, 150000))
			if at, _ := file.Seek(0, io.SeekCurrent); n != 150000 || at != n || err != nil {
				panic(fmt.Sprint("copied ", n, at, err))
			}
		},
		"file of no stated length": func(w http.ResponseWriter, _ *http.Request) {
			file, _ := os.Open(name)
			defer file.Close()
			io.Copy(w, file)
		},
		"request": func(w http.ResponseWriter, r *http.Request) {
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			fmt.Fprintln(w, r.Method, r.RequestURI, r.Proto, r.ProtoMajor, r.ProtoMinor, r.TransferEncoding, r.TLS, host != "")
			fmt.Fprintf(w, "%#v %v %v\n", *r.URL, r.Trailer, r.Header["X-A"])
			_, server := r.Context().Value(http.ServerContextKey).(*http.Server)
			_, address := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
			fmt.Fprintln(w, server, address, r.Context().Err())
		},
		"interfaces": func(w http.ResponseWriter, _ *http.Request) {
			_, hijacker := w.(http.Hijacker)
			_, flusher := w.(http.Flusher)
			_, reader := w.(io.ReaderFrom)
			_, text := w.(io.StringWriter)
			_, notifier := w.(http.CloseNotifier) //nolint:staticcheck // frameworks ask for it
			_, pusher := w.(http.Pusher)
			fmt.Fprint(w, hijacker, flusher, reader, text, notifier, pusher)
		},
	}
	for _, status := range []int{200, 204, 304, 404} {
		status := status
		made[fmt.Sprint("status ", status)] = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Length", "4")
			w.WriteHeader(status)
			n, err := io.WriteString(w, "text")
			if (n == 4) != bodyAllowed(status) || (err == nil) != bodyAllowed(status) {
				panic(fmt.Sprint(n, err))
			}
		}
	}
	for _, size := range []int{2047, 2048, 2049, 4096, 20_000, 100_000} {
		size := size
		made[fmt.Sprint("one write of ", size)] = func(w http.ResponseWriter, _ *http.Request) {
			w.Write(bytes.Repeat([]byte("x"), size))
		}
		made[fmt.Sprint("small writes of ", size)] = func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < size; i++ {
				io.WriteString(w, "y")
			}
		}
		made[fmt.Sprint("stated writes of ", size)] = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(size))
			for i := 0; i < size; i += 100 {
				n := size - i
				if n > 100 {
					n = 100
				}
				w.Write(bytes.Repeat([]byte("z"), n))
			}
		}
	}
	return made
}

// answer is what is compared of a response.
type answer struct {
	Status, Body    string
	Length          int64
	Coding          []string
	Fields, Trailer map[string][]string
}

func answerOf(response *http.Response, body string) answer {
	response.Header.Del("Server")
	if response.Header.Get("Date") != "" {
		response.Header.Set("Date", "there")
	}
	return answer{response.Status, body, response.ContentLength, response.TransferEncoding, response.Header, response.Trailer}
}

func TestAnswersAreThoseOfNetHTTP(t *testing.T) {
	made := handlers(t)
	var names []string
	for name := range made {
		names = append(names, name)
	}
	sort.Strings(names)
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		made[r.Header.Get("X-Name")](w, r)
	})
	alone := httptest.NewUnstartedServer(handler)
	alone.Config.ErrorLog = startServerLog()
	alone.Start()
	defer alone.Close()
	behind := start(t, handler)
	requests := []ask{
		{method: "GET", target: "/a%2Fb%20c/d?q=1&r"},
		{method: "HEAD", target: "/"},
		{method: "POST", target: "/?x=%zz", body: "a=1&b=2", fields: []string{"content-type: application/x-www-form-urlencoded"}},
		{method: "GET", target: "//two//slashes/../x", fields: []string{"range: bytes=5-100000", "x-a: 1", "x-a: 2"}},
	}
	for _, name := range names {
		for _, request := range requests {
			for _, http10 := range []bool{false, true} {
				text := fmt.Sprintf("%s, %s %s, HTTP/1.0 %v", name, request.method, request.target, http10)
				wanted := answerOf(askAlone(t, alone.Listener.Addr().String(), name, request, http10))
				there := request
				there.fields = append([]string{"x-name: " + name}, request.fields...)
				there.flags |= flagKeep
				there.meta = metaBefore + "trailers=1\n"
				if http10 {
					there.flags = flagHTTP10
				}
				if there.body != "" {
					there.fields = append(there.fields, fmt.Sprint("content-length: ", len(there.body)))
				}
				response, body, _ := behind.get(there)
				found := answerOf(response, body)
				if http10 {
					// It is closed anyway; only here it is said.
					delete(found.Fields, "Connection")
				}
				delete(wanted.Fields, "Connection")
				if http10 || request.method == "HEAD" {
					// There are no chunks that they could follow.
					delete(wanted.Fields, "Trailer")
					wanted.Trailer = nil
				}
				if !reflect.DeepEqual(found, wanted) {
					t.Errorf("%s:\nfound  %.1000v\nwanted %.1000v", text, fmt.Sprintf("%+v", found), fmt.Sprintf("%+v", wanted))
				}
			}
		}
	}
	if text := behind.log.String(); strings.Contains(text, "panic") {
		t.Error(text)
	}
}

func askAlone(t *testing.T, address, name string, a ask, http10 bool) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(deadline))
	minor := 1
	if http10 {
		minor = 0
	}
	text := fmt.Sprintf("%s %s HTTP/1.%d\r\nHost: example.com\r\nX-Name: %s\r\n", a.method, a.target, minor, name)
	for _, field := range a.fields {
		text += field + "\r\n"
	}
	if a.body != "" {
		text += fmt.Sprintf("Content-Length: %d\r\n", len(a.body))
	}
	if !http10 {
		text += "Connection: close\r\n"
	}
	io.WriteString(conn, text+"\r\n"+a.body)
	raw, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(raw), a.method)
}

func TestAddressesAreThoseOfNetHTTP(t *testing.T) {
	for _, target := range []string{"/", "/a", "/%61?b=%62#c", "/a;b=c/d:e@f", "*", "/%2e%2e/é"} {
		wanted, err := url.ParseRequestURI(target)
		if err != nil {
			t.Fatal(err)
		}
		x := exchange{meta: &metaLines{}, head: "GET " + target + " HTTP/1.1\r\nhost: h\r\n\r\n"}
		r, err := x.newRequest(noContext)
		if err != nil || !reflect.DeepEqual(r.URL, wanted) || r.RequestURI != target {
			t.Errorf("%q: found %#v (%v), wanted %#v", target, r, err, wanted)
		}
	}
}
