package maitredfasthttp_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/valyala/fasthttp"

	"maitred"
	maitredfasthttp "maitred/fasthttp"
)

func hello(ctx *fasthttp.RequestCtx) {
	fmt.Fprintf(ctx, "hello, %s\n", ctx.RemoteIP())
}

// The program listens on :8080 if it is started by hand, and serves what Maitred hands it if Maitred has started it.
func ExampleListenAndServe() {
	if err := maitredfasthttp.ListenAndServe(":8080", hello); err != nil {
		log.Fatal(err)
	}
}

// Serve is for programs that make no sense without Maitred.
func ExampleServe() {
	err := maitredfasthttp.Serve(hello)
	fmt.Println(errors.Is(err, maitred.ErrNotStartedByMaitred))
	// Output: true
}
