package maitred

import (
	"syscall"
	"time"
	"unsafe"
)

// processTime is how long this process has run on a CPU, or 0 if the kernel does not say.
func processTime() time.Duration {
	const processClock = 2 // CLOCK_PROCESS_CPUTIME_ID, which package syscall does not name
	var now syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, processClock, uintptr(unsafe.Pointer(&now)), 0)
	if errno != 0 {
		return 0
	}
	return time.Duration(now.Nano())
}
