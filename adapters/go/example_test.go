package maitred_test

import (
	"errors"
	"fmt"
	"log"
	"net/http"

	"maitred"
)

// The program listens on :8080 if it is started by hand, and serves what Maitred hands it if Maitred has started it.
func ExampleListenAndServe() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello,", r.RemoteAddr)
	})
	if err := maitred.ListenAndServe(":8080", nil); err != nil {
		log.Fatal(err)
	}
}

// Serve is for programs that make no sense without Maitred.
func ExampleServe() {
	err := maitred.Serve(http.NotFoundHandler())
	fmt.Println(errors.Is(err, maitred.ErrNotStartedByMaitred))
	// Output: true
}

// Each request holds one of ten database connections: more requests wait in Maitred, where they cost least.
func ExampleServer() {
	server := maitred.Server{
		HTTP:     &http.Server{Addr: ":8080", Handler: http.NotFoundHandler()},
		Capacity: 10,
	}
	server.HTTP.RegisterOnShutdown(func() { log.Print("Maitred asks us to end") })
	if err := server.ListenAndServe(); err != nil {
		log.Fatal(err)
	}
}

// Links begin with the mount.
func ExampleMount() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `<a href="%s/next">next</a>`, maitred.Mount(r))
	})
}

// Who the user is, Maitred's basic_auth, jwt or forward_auth has found out; no client can say it.
func ExampleUser() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		name, _, ok := maitred.User(r)
		if !ok {
			http.Error(w, "who are you?", http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, "Hello %s", name)
	})
}
