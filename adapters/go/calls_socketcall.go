//go:build 386 || s390x

package maitred

import "syscall"

// send is send(2), for flags with MSG_DONTWAIT. For these processors package syscall does not name it.
func send(fd int, data []byte, flags int) (int, error) {
	return syscall.SendmsgN(fd, data, nil, nil, flags)
}

// receive is recvmsg(2) on a non-blocking descriptor.
func receive(fd int, data, control []byte) (n, controlBytes, flags int, err error) {
	n, controlBytes, flags, _, err = syscall.Recvmsg(fd, data, control, syscall.MSG_CMSG_CLOEXEC)
	return n, controlBytes, flags, err
}
