package maitred

import (
	"net"
	"os"
	"syscall"
	"testing"
)

// Where more descriptors are under way than this user may have open, reports and files wait, and nothing is lost.
func TestCrowdedChannel(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	far := os.NewFile(uintptr(pair[1]), "far end")
	defer far.Close()
	near := os.NewFile(uintptr(pair[0]), "near end")
	connection, err := net.FileConn(near)
	near.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	raw, err := connection.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	file, err := syscall.Dup(pair[1])
	if err != nil {
		t.Fatal(err)
	}
	r := newReports(raw)
	refused := 0
	r.call = func(fd int, data, rights []byte) (int, error) {
		if refused < 3 {
			refused++
			return 0, syscall.ETOOMANYREFS
		}
		return sendmsg(fd, data, rights)
	}
	r.tail(file, func(out []byte) []byte { return append(out, "with a file"...) })
	r.add(func(out []byte) []byte { return append(out, ", and more"...) })
	r.finish()
	if r.gone || refused != 3 {
		t.Fatalf("gone: %v, refused: %d", r.gone, refused)
	}
	data, rights := make([]byte, 64), make([]byte, syscall.CmsgSpace(4))
	n, oobn, _, _, err := syscall.Recvmsg(pair[1], data, rights, 0)
	if err != nil || string(data[:n]) != "with a file, and more" {
		t.Fatalf("%q, %v", data[:n], err)
	}
	messages, err := syscall.ParseSocketControlMessage(rights[:oobn])
	if err != nil || len(messages) != 1 {
		t.Fatalf("%v, %v", messages, err)
	}
	descriptors, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(descriptors) != 1 {
		t.Fatalf("%v, %v", descriptors, err)
	}
	syscall.Close(descriptors[0])
}
