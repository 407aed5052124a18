//go:build !386 && !s390x

package maitred

import (
	"syscall"
	"unsafe"
)

// Calls that neither wait nor take long are made without telling Go's scheduler (RawSyscall). If it is told, it wakes its monitor
// thread whenever the process was idle before, and another thread when the kernel has let other processes run meanwhile: either
// costs more than the call.

// quickBytes are sent in so little time.
const quickBytes = 16 << 10

// send is send(2), for flags with MSG_DONTWAIT.
func send(fd int, data []byte, flags int) (int, error) {
	var n uintptr
	var errno syscall.Errno
	first := unsafe.Pointer(&data[0])
	if len(data) <= quickBytes {
		n, _, errno = syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd), uintptr(first), uintptr(len(data)), uintptr(flags), 0, 0)
	} else {
		n, _, errno = syscall.Syscall6(syscall.SYS_SENDTO, uintptr(fd), uintptr(first), uintptr(len(data)), uintptr(flags), 0, 0)
	}
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// receive is recvmsg(2) on a non-blocking descriptor.
func receive(fd int, data, control []byte) (n, controlBytes, flags int, err error) {
	part := syscall.Iovec{Base: &data[0]}
	part.SetLen(len(data))
	message := syscall.Msghdr{Iov: &part, Iovlen: 1, Control: &control[0]}
	message.SetControllen(len(control))
	const flag = syscall.MSG_CMSG_CLOEXEC
	got, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&message)), flag)
	if errno != 0 {
		return 0, 0, 0, errno
	}
	return int(got), int(message.Controllen), int(message.Flags), nil
}
