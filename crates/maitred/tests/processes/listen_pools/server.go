// A server as Go programs under a service manager have it: net/http on descriptor 3.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		panic(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, os.Getpid())
	})}
	stop, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	go func() {
		<-stop.Done()
		server.Shutdown(context.Background())
	}()
	if err := server.Serve(listener); err != http.ErrServerClosed {
		panic(err)
	}
	<-stop.Done()
}
