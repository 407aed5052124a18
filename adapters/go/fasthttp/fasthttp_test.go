package maitredfasthttp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"maitred"
	"maitred/maitredtest"
)

// deadline only bounds how long a broken adapter can hold the tests up.
const deadline = 60 * time.Second

// TestMain makes this program the application, if Maitred has started it.
func TestMain(m *testing.M) {
	if !maitred.Started() {
		os.Exit(m.Run())
	}
	log.SetFlags(0)
	server := Server{HTTP: &fasthttp.Server{Handler: application, Name: os.Getenv("NAME")}}
	if err := server.Serve(); err != nil {
		log.Fatal(err)
	}
}

// never is what a handler waits for that takes too long.
var never = make(chan struct{})

var large = bytes.Repeat([]byte("large "), 100_000)

func application(ctx *fasthttp.RequestCtx) {
	switch string(ctx.Path()) {
	case "/request":
		header := &ctx.Request.Header
		fmt.Fprintf(ctx, "%s %s %s %s\n", ctx.Method(), ctx.Path(), ctx.QueryArgs(), ctx.Host())
		fmt.Fprintf(ctx, "%q %s\n", ctx.UserAgent(), header.Protocol())
		fmt.Fprintf(ctx, "%q %q %s %t\n", header.PeekAll("X-A"), header.Cookie("a"), ctx.URI().FullURI(), ctx.IsTLS())
		fmt.Fprintf(ctx, "%q %d %q\n", ctx.FormValue("field"), header.ContentLength(), ctx.PostBody())
	case "/cookies":
		for _, name := range []string{"a", "b"} {
			cookie := fasthttp.Cookie{}
			cookie.SetKey(name)
			cookie.SetValue("1")
			ctx.Response.Header.SetCookie(&cookie)
		}
		ctx.Response.Header.Add("X-Many", "1")
		ctx.Response.Header.Add("X-Many", "2")
	case "/nothing":
	case "/json":
		ctx.SetContentType("application/json")
		ctx.SetBodyString("{}")
	case "/redirect":
		ctx.Redirect("/elsewhere", 302)
	case "/error":
		ctx.Error("no", 418)
	case "/empty":
		ctx.SetStatusCode(204)
	case "/304":
		ctx.NotModified()
	case "/large":
		ctx.SetBody(large)
	case "/stream":
		ctx.SetBodyStream(bytes.NewReader(large), len(large))
	case "/unstated":
		ctx.SetBodyStream(bytes.NewReader(large), -1)
	case "/writer":
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
			for i := 0; i < 3; i++ {
				fmt.Fprintf(w, "piece %d\n", i)
				w.Flush()
			}
		})
	case "/file":
		ctx.SendFile(os.Getenv("FILE"))
	case "/late":
		fasthttp.TimeoutHandler(func(*fasthttp.RequestCtx) { <-never }, time.Millisecond, "late")(ctx)
	case "/panic":
		panic("reason")
	case "/hijack":
		ctx.Hijack(func(net.Conn) {})
	case "/gone":
		log.Print("it has begun")
		<-Context(ctx).Done()
		log.Print("the client has gone")
	case "/mounted/below/x":
		fmt.Fprint(ctx, "whole path")
	case "/x":
		fmt.Fprint(ctx, Mount(ctx), " ", string(ctx.Path()), " ", string(ctx.RequestURI()))
	default:
		ctx.NotFound()
	}
}

func file(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "file.txt")
	if err := os.WriteFile(name, large, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// behind runs the application behind Maitred.
func behind(t *testing.T, transport, more string) *maitredtest.Server {
	return below(t, "", transport, more)
}

// below runs it for one path.
func below(t *testing.T, path, transport, more string) *maitredtest.Server {
	place := strings.NewReplacer("PROGRAM", os.Args[0], "TRANSPORT", transport, "PATH", path, "MORE", more)
	return maitredtest.Start(t, place.Replace(`
[server]
share_user = true
[[listen]]
address = "127.0.0.1:0"
[limits]
body_bytes_max = "64MiB"
[[site]]
[[site.route]]
path = "PATH/*"
pool = "app"
[pool.app]
command = ["PROGRAM"]
transport = "TRANSPORT"
workers = 1
queue = { timeout = "60s" }
MORE
`))
}

// answer is what is compared.
type answer struct {
	status int
	body   string
	fields http.Header
	length int64
	coding []string
}

func ask(t *testing.T, client *http.Client, method, url, body string) answer {
	t.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "example.com"
	request.Header = http.Header{"X-A": {"1", "2"}, "Cookie": {"a=b; c=d"}, "User-Agent": {"test"}}
	if body != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	if method == "HEAD" {
		// Behind Maitred a response without a body has no Transfer-Encoding.
		response.TransferEncoding = nil
	}
	fields := response.Header
	if fields.Get("Date") == "" {
		t.Errorf("%s %s: no Date", method, url)
	}
	for _, name := range []string{"Date", "Server", "Connection"} {
		fields.Del(name)
	}
	return answer{response.StatusCode, string(data), fields, response.ContentLength, response.TransferEncoding}
}

func newClient(t *testing.T) *http.Client {
	client := &http.Client{Timeout: deadline, Transport: &http.Transport{}}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func TestAnswersAreThoseOfFasthttp(t *testing.T) {
	name := file(t)
	t.Setenv("FILE", name)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	alone := &fasthttp.Server{Handler: application}
	go alone.Serve(listener)
	defer alone.Shutdown()
	client := newClient(t)
	for _, transport := range []string{"direct", "relay"} {
		there := behind(t, transport, fmt.Sprintf("env = { FILE = %q }", name))
		for _, method := range []string{"GET", "HEAD", "POST"} {
			for _, target := range []string{
				"/request?q=1&r=%20", "/cookies", "/nothing", "/json", "/redirect", "/error", "/empty", "/304", "/large", "/stream",
				"/unstated", "/writer", "/file", "/late", "/missing", "/a%2Fb//c/../x",
			} {
				body := ""
				if method == "POST" {
					body = "field=value&other=1"
				}
				wanted := ask(t, client, method, "http://"+listener.Addr().String()+target, body)
				found := ask(t, client, method, there.URL(target), body)
				if !reflect.DeepEqual(found, wanted) {
					text := fmt.Sprintf("%.600s\nwanted %.600s", fmt.Sprintf("%+v", found), fmt.Sprintf("%+v", wanted))
					t.Errorf("%s, %s %s:\nfound  %s", transport, method, target, text)
				}
			}
		}
		if said, err := there.Stop(); err != nil || strings.Contains(said, "WARN") || strings.Contains(said, "ERROR") {
			t.Errorf("%v; said at the end:\n%s", err, said)
		}
	}
}

func TestBodiesThatComeAsFilesAreRead(t *testing.T) {
	there := behind(t, "auto", "")
	body := "field=" + strings.Repeat("x", 5_000_000)
	if found := ask(t, newClient(t), "POST", there.URL("/request"), body); !strings.Contains(found.body, body[6:]+`" 5000006`) {
		t.Errorf("status %d, %d bytes", found.status, len(found.body))
	}
}

func TestWhatFailsIsA500(t *testing.T) {
	there := behind(t, "auto", `env = { NAME = "named" }`)
	client := newClient(t)
	for target, said := range map[string]string{"/panic": "reason", "/hijack": "cannot be taken over"} {
		if found := ask(t, client, "GET", there.URL(target), ""); found.status != 500 {
			t.Errorf("%s: %+v", target, found)
		}
		there.Says(regexp.MustCompile(said))
	}
	response, err := client.Get(there.URL("/json"))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if name := response.Header.Get("Server"); name != "named" {
		t.Errorf("the server is called %q", name)
	}
}

func TestAClientThatHasGoneEndsTheContext(t *testing.T) {
	there := behind(t, "auto", "")
	conn, err := net.Dial("tcp", there.Address)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "GET /gone HTTP/1.1\r\nHost: x\r\n\r\n")
	there.Says(regexp.MustCompile("it has begun"))
	conn.Close()
	there.Says(regexp.MustCompile("the client has gone"))
}

func TestMountIsTakenFromThePath(t *testing.T) {
	there := below(t, "/mounted/below", "auto", `mount = "/mounted/below"`)
	if found := ask(t, newClient(t), "GET", there.URL("/mounted/below/x"), ""); found.body != "/mounted/below /x /mounted/below/x" {
		t.Errorf("%+v", found)
	}
}

// What a handler asks about Maitred is answered without it, too.
func TestThereNeedBeNoMaitred(t *testing.T) {
	ctx := &fasthttp.RequestCtx{}
	ctx.Init(&fasthttp.Request{}, nil, nil)
	if name, scheme, ok := User(ctx); name != "" || scheme != "" || ok || Mount(ctx) != "" || Context(ctx) != context.Context(ctx) {
		t.Errorf("%q %q %t %q", name, scheme, ok, Mount(ctx))
	}
	if err := Serve(application); !errors.Is(err, maitred.ErrNotStartedByMaitred) {
		t.Error(err)
	}
}
