package maitred

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"

	"maitred/internal/front"
)

// ChannelVariable is the environment variable by which Maitred says that it has started this process.
const ChannelVariable = "MAITRED_CHANNEL"

// DefaultCapacity is how many requests one process works on at a time, unless Server.Capacity says otherwise. A goroutine is
// cheap; the bound is below the 900 connections whose descriptors Maitred leaves with a process.
const DefaultCapacity = 512

// ErrNotStartedByMaitred is returned by Serve if this process has no channel to Maitred.
var ErrNotStartedByMaitred = errors.New("maitred: not started by Maitred: " + ChannelVariable +
	" is not set; name this program as command of a pool in maitred.toml, or use maitred.ListenAndServe")

// Started reports whether Maitred has started this process, and Serve has not been called yet.
func Started() bool {
	_, set := os.LookupEnv(ChannelVariable)
	return set
}

// Serve answers the requests that Maitred sends, each in a goroutine, until Maitred asks this process to end; then it finishes
// what it has begun, and returns nil. A nil handler is http.DefaultServeMux.
//
// It returns an error that wraps ErrNotStartedByMaitred if there is no Maitred, and others if the channel cannot be used.
// The process then has to exit with a status other than 0, at once.
func Serve(handler http.Handler) error {
	server := Server{HTTP: &http.Server{Handler: handler}}
	return server.Serve()
}

// ListenAndServe does the same as Serve if Maitred has started this process, and the same as http.ListenAndServe if not.
func ListenAndServe(addr string, handler http.Handler) error {
	server := Server{HTTP: &http.Server{Addr: addr, Handler: handler}}
	return server.ListenAndServe()
}

// Server is for programs that need more than a handler. Its zero value serves http.DefaultServeMux.
type Server struct {
	// HTTP is the server as the program would use it without Maitred; nil is an empty one. Handler, ErrorLog,
	// BaseContext, DisableGeneralOptionsHandler and what was given to RegisterOnShutdown mean what they mean there;
	// HTTP.Shutdown returns at once and makes Serve take no more requests, finish those that it has, and return nil.
	// Timeouts, limits and TLS are Maitred's.
	HTTP *http.Server

	// Capacity is how many requests Maitred is to send at a time, 1 to 65536; 0 is DefaultCapacity. More wait in the queue of the
	// pool, in Maitred. Set it if each request holds something scarce.
	Capacity int

	// What answers in place of HTTP.Handler, and what Maitred calls it.
	front func(front.Exchange)
	name  string
}

// Serve is like the function Serve.
func (s *Server) Serve() error {
	value, set := os.LookupEnv(ChannelVariable)
	if !set {
		return ErrNotStartedByMaitred
	}
	fd, err := passedDescriptor(ChannelVariable, value)
	if err != nil {
		return err
	}
	recovery := noDescriptor
	if value, set := os.LookupEnv(RecoveryVariable); set {
		if recovery, err = passedDescriptor(RecoveryVariable, value); err != nil {
			return err
		}
	}
	raiseLimitOfFiles()
	return s.serve(fd, recovery, true)
}

// ListenAndServe is like the function ListenAndServe; the address is HTTP.Addr.
func (s *Server) ListenAndServe() error {
	if Started() {
		return s.Serve()
	}
	return s.http().ListenAndServe()
}

func (s *Server) http() *http.Server {
	if s.HTTP == nil {
		s.HTTP = &http.Server{}
	}
	return s.HTTP
}

// Mount returns the leading part of the path at which Maitred has mounted the application, such as "/app", or "". r.URL.Path
// begins behind it; links have to begin with it.
func Mount(r *http.Request) string {
	mount, _ := r.Context().Value(mountKey{}).(string)
	return mount
}

// User returns the name of the user, if basic_auth, jwt or forward_auth of Maitred's site or route has found out who that is,
// and how: scheme is "Basic", "Bearer" or "forward_auth". Without one ok is false. No client can set it, whatever fields it
// sends, and no process that Maitred has not started has one.
func User(r *http.Request) (name, scheme string, ok bool) {
	found, _ := r.Context().Value(userKey{}).(user)
	if found.name == "" {
		return "", "", false
	}
	return found.name, found.scheme, true
}

// serve runs on a channel, and those that take its place, which come over the recovery socket if there is one. It closes
// them all.
func (s *Server) serve(fd, recovery int, signals bool) error {
	capacity := s.Capacity
	if capacity == 0 {
		capacity = DefaultCapacity
	}
	if capacity < 1 || capacity > capacityMax {
		syscall.Close(fd)
		syscall.Close(recovery)
		return fmt.Errorf("maitred: Server.Capacity is %d; 1 to %d are allowed", capacity, capacityMax)
	}
	l, err := newLife(s.http(), recovery)
	if err != nil {
		return fmt.Errorf("maitred: %w", err)
	}
	defer l.close()
	if l.front = s.front; s.front != nil {
		l.name = s.name
	}
	s.HTTP.RegisterOnShutdown(l.stopReceiving)
	if signals {
		defer l.obeySignals()()
	}
	return l.run(fd, capacity)
}

// passedDescriptor is the number of a stream socket that Maitred has passed: what this process starts must neither find nor
// hold it.
func passedDescriptor(variable, value string) (int, error) {
	fd, err := channelDescriptor(value)
	if err != nil {
		return noDescriptor, fmt.Errorf("maitred: %s=%s %w", variable, value, err)
	}
	os.Unsetenv(variable)
	syscall.CloseOnExec(fd)
	return fd, nil
}

// channelDescriptor is the number of a stream socket.
func channelDescriptor(value string) (int, error) {
	fd, err := strconv.Atoi(value)
	if err != nil || fd < 0 {
		return -1, errors.New("is not the number of a descriptor")
	}
	kind, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE)
	if err != nil || kind != syscall.SOCK_STREAM {
		return -1, errors.New("does not name a stream socket")
	}
	return fd, nil
}

// openFiles is how many files this process may have open.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1024
	}
	return uint64(limit.Cur)
}

// raiseLimitOfFiles allows as many open files as possible: one descriptor is kept for each connection. Go does it at
// start, too; a program may have changed it since.
func raiseLimitOfFiles() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && limit.Cur < limit.Max {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
}

// baseContext is what all requests' contexts are made of.
func baseContext(server *http.Server) context.Context {
	ctx := context.Background()
	if server.BaseContext != nil {
		ctx = server.BaseContext(noListener{})
	}
	return context.WithValue(ctx, http.ServerContextKey, server)
}

// noListener stands where http.Server.BaseContext gets a listener.
type noListener struct{}

func (noListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (noListener) Close() error              { return nil }
func (noListener) Addr() net.Addr            { return &net.UnixAddr{Net: "unix", Name: "maitred"} }
