package maitred

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// tailBytesKept go back to Maitred as bytes; more go through a file, which the kernel copies once less.
const tailBytesKept = 256 << 10

var errClientGone = errors.New("maitred: the client has gone")

// send writes to the response descriptor. What it does not take is waited for, or, if it is the last of the response, left to
// Maitred. more says that more follows at once.
func (w *response) send(data []byte, last, more bool) {
	flags := syscall.MSG_NOSIGNAL | syscall.MSG_DONTWAIT
	if more {
		flags |= syscall.MSG_MORE
	}
	for len(data) > 0 {
		if w.tailing {
			w.tail(data)
			return
		}
		if !w.over && !w.deadline.IsZero() && !time.Now().Before(w.deadline) {
			w.fail(os.ErrDeadlineExceeded)
			return
		}
		n, err := send(w.x.connection.fd, data, flags)
		if err == syscall.EAGAIN && !last {
			n, err = w.waitAndSend(data, flags)
		}
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			w.tailing = true
			continue
		case err != nil:
			w.fail(err)
			return
		}
		w.sent = true
		data = data[n:]
		// A socket that took less than all is full.
		w.tailing = last && len(data) > 0
	}
}

// fail breaks the response off. As in net/http this ends the request's context.
func (w *response) fail(err error) {
	w.err = err
	w.out, w.piece = w.out[:0], w.piece[:0]
	x := w.x
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tell()
}

// waitAndSend waits for room, and sends. Maitred ends a wait that takes too long by shutting the socket down, or by CANCEL.
func (w *response) waitAndSend(data []byte, flags int) (n int, err error) {
	if w.waitRaw == nil {
		if err := w.openWaiter(); err != nil {
			return 0, err
		}
	}
	waited := w.waitRaw.Write(func(fd uintptr) bool {
		n, err = send(int(fd), data, flags)
		return err != syscall.EAGAIN
	})
	if waited != nil {
		if w.x.isCancelled() {
			return 0, errClientGone
		}
		return 0, waited
	}
	return n, err
}

// openWaiter registers a copy of the descriptor with Go's netpoller. Only responses that have to wait do so, because it
// wakes this process for what the client sends, too.
func (w *response) openWaiter() error {
	copied, err := duplicate(w.x.connection.fd)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(copied), "response")
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return err
	}
	x := w.x
	x.mu.Lock()
	defer x.mu.Unlock()
	deadline := w.deadline
	if x.isCancelled() {
		deadline = time.Unix(1, 0)
	}
	if err := file.SetWriteDeadline(deadline); err != nil {
		file.Close()
		return err
	}
	x.waiter, w.waitRaw = file, raw
	return nil
}

func (w *response) closeWaiter() {
	x := w.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.waiter != nil {
		x.waiter.Close()
		x.waiter, w.waitRaw = nil, nil
	}
}

// tail leaves bytes to Maitred.
func (w *response) tail(data []byte) {
	if w.tailBytes+len(data) > tailBytesKept {
		w.tailSpool(data)
		return
	}
	x := w.x
	w.tailBytes += len(data)
	w.tails++
	x.channel.reports.tail(noFile, func(out []byte) []byte {
		for len(data) > tailBytesMax {
			out = appendTail(out, x.connection.number, x.id, data[:tailBytesMax])
			data = data[tailBytesMax:]
		}
		return appendTail(out, x.connection.number, x.id, data)
	})
}

// tailSpool leaves bytes to Maitred as a file in memory. If there is none to be had, it waits for the client.
func (w *response) tailSpool(data []byte) {
	fd, err := memoryFile(data)
	if err != nil && w.tails == 0 {
		w.tailing = false
		w.send(data, false, false)
		return
	}
	if err != nil {
		w.fail(err)
		return
	}
	w.tailFile(fd, 0, int64(len(data)))
}

// tailFile leaves a part of a file to Maitred; fd is closed when it was sent.
func (w *response) tailFile(fd int, offset, length int64) {
	x := w.x
	w.tailing = true
	w.tails++
	x.channel.reports.tail(fd, func(out []byte) []byte {
		return appendTailFile(out, x.connection.number, x.id, offset, length)
	})
}

func duplicate(fd int) (int, error) {
	const dupCloexec = 1030 // F_DUPFD_CLOEXEC, which package syscall does not name
	copied, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), dupCloexec, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(copied), nil
}
