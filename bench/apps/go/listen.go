// Package apps is what the applications here have in common.
package apps

import (
	"log"
	"net"
	"net/http"
	"os"
	"strings"

	"maitred"
)

// Serve serves at the place that the first argument names, a Unix socket if it has a slash in it, and behind Maitred without one.
// With two more arguments, a certificate and its key, it speaks TLS and HTTP/2.
func Serve(handler http.Handler) {
	if len(os.Args) < 2 {
		log.Fatal(maitred.ListenAndServe("127.0.0.1:8080", handler))
	}
	network := "tcp"
	if strings.Contains(os.Args[1], "/") {
		network = "unix"
	}
	listener, err := net.Listen(network, os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if len(os.Args) == 4 {
		log.Fatal(http.ServeTLS(listener, handler, os.Args[2], os.Args[3]))
	}
	log.Fatal(http.Serve(listener, handler))
}
