// The reference application of the conformance kit (adapters/conformance/README.md), as a handler of fasthttp.
package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	maitredfasthttp "maitred/fasthttp"
)

func main() {
	log.SetFlags(0)
	address := "127.0.0.1:8080"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	if err := maitredfasthttp.ListenAndServe(address, serve); err != nil {
		log.Fatal(err)
	}
}

// route is a handler and how many numbers it takes from the path.
type route struct {
	numbers int
	serve   func(ctx *fasthttp.RequestCtx, numbers []int)
}

var routes = map[string]route{
	"echo":       {0, echo},
	"user":       {0, user},
	"bytes":      {1, someBytes},
	"chunks":     {2, chunks},
	"status":     {1, func(ctx *fasthttp.RequestCtx, numbers []int) { ctx.SetStatusCode(numbers[0]) }},
	"error":      {0, func(*fasthttp.RequestCtx, []int) { panic("asked for by /error") }},
	"error-late": {0, failLate},
	"short":      {0, func(ctx *fasthttp.RequestCtx, _ []int) { ctx.SetBodyStream(strings.NewReader("12345"), 10) }},
	"long":       {0, func(ctx *fasthttp.RequestCtx, _ []int) { ctx.SetBodyStream(strings.NewReader("1234567890"), 5) }},
	"slow":       {1, slow},
	"inject":     {0, inject},
	"hop":        {0, hop},
	"file":       {1, file},
	"sendfile":   {1, sendFile},
	"sum":        {0, sum},
	"wait":       {0, func(ctx *fasthttp.RequestCtx, _ []int) { <-maitredfasthttp.Context(ctx).Done() }},
	"426":        {0, upgradeRequired},

	"early-hints":   {0, earlyHints},
	"trailers":      {0, trailers},
	"sendfile-path": {0, sendFilePath},
}

func serve(ctx *fasthttp.RequestCtx) {
	parts := strings.Split(string(ctx.Path()), "/")
	found, known := routes[parts[1]]
	if !known || len(parts)-2 < found.numbers {
		ctx.NotFound()
		return
	}
	numbers := make([]int, found.numbers)
	for i := range numbers {
		number, err := strconv.Atoi(parts[2+i])
		if err != nil || number < 0 {
			ctx.NotFound()
			return
		}
		numbers[i] = number
	}
	ctx.SetContentType("text/plain")
	found.serve(ctx, numbers)
}

func spaced(address net.Addr) string {
	host, port, _ := net.SplitHostPort(address.String())
	return host + " " + port
}

// latin1 makes each byte one character, as the kit wants it.
func latin1(text []byte) string {
	characters := make([]rune, len(text))
	for i, c := range text {
		characters[i] = rune(c)
	}
	return string(characters)
}

func echo(ctx *fasthttp.RequestCtx, _ []int) {
	headers := map[string]string{}
	ctx.Request.Header.VisitAll(func(key, value []byte) {
		name := strings.ToLower(string(key))
		if before, there := headers[name]; there {
			headers[name] = before + ", " + latin1(value)
		} else {
			headers[name] = latin1(value)
		}
	})
	scheme := "http"
	if ctx.IsTLS() {
		scheme = "https"
	}
	data, err := json.Marshal(map[string]any{
		"method": string(ctx.Method()), "mount": maitredfasthttp.Mount(ctx), "path": latin1(ctx.Path()),
		"query": string(ctx.URI().QueryString()), "version": string(ctx.Request.Header.Protocol()), "scheme": scheme,
		"remote": spaced(ctx.RemoteAddr()), "local": spaced(ctx.LocalAddr()), "headers": headers, "body": append([]byte{}, ctx.PostBody()...),
	})
	if err != nil {
		panic(err)
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(data)
}

func user(ctx *fasthttp.RequestCtx, _ []int) {
	if name, scheme, ok := maitredfasthttp.User(ctx); ok {
		ctx.SetBodyString(name + " " + scheme)
	}
}

func someBytes(ctx *fasthttp.RequestCtx, numbers []int) {
	ctx.SetBody(bytes.Repeat([]byte("x"), numbers[0]))
}

func chunks(ctx *fasthttp.RequestCtx, numbers []int) {
	piece := bytes.Repeat([]byte("y"), numbers[1])
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		for i := 0; i < numbers[0]; i++ {
			if _, err := w.Write(piece); err != nil {
				return
			}
			if w.Flush() != nil {
				return
			}
		}
	})
}

// failing is a body that cannot be read to its end.
type failing struct{ text io.Reader }

func (f failing) Read(data []byte) (int, error) {
	n, err := f.text.Read(data)
	if err == io.EOF {
		err = errors.New("asked for by /error-late")
	}
	return n, err
}

func failLate(ctx *fasthttp.RequestCtx, _ []int) {
	ctx.SetBodyStream(failing{strings.NewReader("first")}, -1)
}

func slow(ctx *fasthttp.RequestCtx, numbers []int) {
	time.Sleep(time.Duration(numbers[0]) * time.Millisecond)
	ctx.SetBodyString("slow")
}

func inject(ctx *fasthttp.RequestCtx, _ []int) {
	ctx.Response.Header.Set("X-Value", "a\r\nInjected: yes")
	ctx.SetBodyString("inject")
}

func hop(ctx *fasthttp.RequestCtx, _ []int) {
	ctx.Response.Header.Set("Connection", "keep-alive")
	ctx.Response.Header.Set("Keep-Alive", "timeout=5")
	ctx.Response.Header.Set("Proxy-Connection", "keep-alive")
	ctx.Response.Header.Set("Transfer-Encoding", "chunked")
	ctx.SetBodyString("hop")
}

func upgradeRequired(ctx *fasthttp.RequestCtx, _ []int) {
	ctx.Response.Header.Set("Upgrade", "websocket")
	ctx.SetStatusCode(fasthttp.StatusUpgradeRequired)
}

func earlyHints(ctx *fasthttp.RequestCtx, _ []int) {
	ctx.Response.Header.Set("Link", "</style.css>; rel=preload; as=style")
	if err := ctx.EarlyHints(); err != nil {
		panic(err)
	}
	ctx.SetBodyString("hinted")
}

func trailers(ctx *fasthttp.RequestCtx, _ []int) {
	if err := ctx.Response.Header.SetTrailer("X-Sum"); err != nil {
		panic(err)
	}
	ctx.Response.Header.Set("X-Sum", "4")
	ctx.SetBodyStream(strings.NewReader("body"), -1)
}

// pattern makes a file of so many bytes 0, 1, … 250, 0, …
func pattern(count int) string {
	data := make([]byte, count)
	for i := range data {
		data[i] = byte(i % 251)
	}
	file, err := os.CreateTemp("", "pattern")
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if _, err := file.Write(data); err != nil {
		panic(err)
	}
	return file.Name()
}

func file(ctx *fasthttp.RequestCtx, numbers []int) {
	name := pattern(numbers[0])
	defer os.Remove(name)
	opened, err := os.Open(name)
	if err != nil {
		panic(err)
	}
	ctx.SetBodyStream(opened, numbers[0])
}

func sendFile(ctx *fasthttp.RequestCtx, numbers []int) {
	ctx.Response.Header.Set("X-Sendfile", pattern(numbers[0]))
}

func sendFilePath(ctx *fasthttp.RequestCtx, _ []int) {
	path, err := url.PathUnescape(string(ctx.URI().QueryString()))
	if err != nil {
		panic(err)
	}
	ctx.Response.Header.Set("X-Sendfile", path)
	ctx.SetBodyString("instead")
}

func sum(ctx *fasthttp.RequestCtx, _ []int) {
	hash := sha256.New()
	_, _ = hash.Write(ctx.PostBody())
	ctx.SetBodyString(fmt.Sprintf("%d %s", len(ctx.PostBody()), hex.EncodeToString(hash.Sum(nil))))
}
