package maitred

import (
	"sync"
	"syscall"
	"time"
)

const (
	// reportWait is from where on a report waits for no further company: the protocol allows a millisecond.
	reportWait = 750 * time.Microsecond
	// After a request that ran longer than slowRequest on the only thread, so many are reported at once: a report does not wait for
	// a request that may take long.
	slowRequest  = time.Millisecond
	slowRequests = 100
	// queuedBytesMax and queuedFilesMax are how much may wait before responses that add tails have to. Descriptors that were refused
	// once leave together with those that came meanwhile.
	queuedBytesMax = 1 << 20
	queuedFilesMax = descriptorsMax / 2

	// crowdedWait is when reports are tried again for which more descriptors of this user are under way than it may have open:
	// nothing reports that there is room (PROTOCOL.md section 2).
	crowdedWait = 5 * time.Millisecond

	noFile = -1
)

// reports is what goes to Maitred: many goroutines add frames, one at a time sends all that there is in one sendmsg.
type reports struct {
	raw syscall.RawConn

	// What sendmsg is about; they belong to the goroutine that has set sending.
	rest    []byte
	rights  []byte
	patient bool
	err     error
	write   func(fd uintptr) bool // trySend, made once
	call    func(fd int, data, rights []byte) (int, error)

	mu      sync.Mutex
	changed *sync.Cond // less is queued, or sending has ended
	queued  []byte
	files   []int // descriptors that belong to frames in queued, in order
	spare   []byte
	sending bool // one goroutine sends, until nothing is queued
	gone    bool // there is no reader any more

	dones  int       // in queued
	oldest time.Time // when the first of them was
	slow   int       // so many requests are reported at once
}

func newReports(raw syscall.RawConn) *reports {
	r := &reports{raw: raw, call: sendmsg}
	r.changed = sync.NewCond(&r.mu)
	r.write = r.trySend
	return r
}

// add queues frames; encode appends them.
func (r *reports) add(encode func([]byte) []byte) {
	r.mu.Lock()
	r.queued = encode(r.queued)
	r.mu.Unlock()
}

// tail queues frames as add does, after waiting until not too much is queued. file is a descriptor that belongs to the
// frame and is closed when it was sent, or noFile.
func (r *reports) tail(file int, encode func([]byte) []byte) {
	r.mu.Lock()
	for !r.gone && (len(r.queued) > queuedBytesMax || len(r.files) >= queuedFilesMax) {
		r.mu.Unlock()
		r.flush()
		r.mu.Lock()
		if r.sending && (len(r.queued) > queuedBytesMax || len(r.files) >= queuedFilesMax) {
			r.changed.Wait()
		}
	}
	r.queued = encode(r.queued)
	if file != noFile {
		r.files = append(r.files, file)
	}
	r.mu.Unlock()
}

// done queues a DONE. Who takes the next request sends it with those of others (crew), or it leaves here: if one of them could
// become too old, or requests are expected to take long while only one thread runs.
func (r *reports) done(connection, request uint32, d done, now time.Time, delays bool) {
	r.mu.Lock()
	r.queued = appendDone(r.queued, connection, request, d)
	if r.dones++; r.dones == 1 {
		r.oldest = now
	}
	if delays {
		r.slow = slowRequests
	}
	leave := r.slow > 0 || now.Sub(r.oldest) > reportWait
	if r.slow > 0 {
		r.slow--
	}
	r.mu.Unlock()
	if leave {
		r.flush()
	}
}

// flush sends everything that is queued, without waiting; another goroutine does so if the channel is full or being written to.
func (r *reports) flush() {
	r.mu.Lock()
	if r.sending || len(r.queued) == 0 {
		r.mu.Unlock()
		return
	}
	r.sending = true
	r.send(false)
}

// send sends until nothing is queued. It is called with mu held and sending set, and releases both.
func (r *reports) send(patient bool) {
	for len(r.queued) > 0 && !r.gone {
		data, files := r.queued, r.files
		r.queued, r.files, r.spare, r.dones = r.spare[:0], nil, nil, 0
		r.mu.Unlock()
		rest, err := r.sendmsg(data, files, patient)
		r.mu.Lock()
		if len(rest) < len(data) {
			closeAll(files)
			files = nil
		}
		switch {
		case err == syscall.EAGAIN || err == syscall.ETOOMANYREFS:
			// What was added meanwhile comes behind it.
			r.queued = append(append(make([]byte, 0, len(rest)+len(r.queued)), rest...), r.queued...)
			r.files = append(files, r.files...)
			go func() {
				if err == syscall.ETOOMANYREFS {
					time.Sleep(crowdedWait)
				}
				r.mu.Lock()
				r.send(true)
			}()
			r.mu.Unlock()
			return
		case err != nil:
			closeAll(files)
			r.gone = true
		}
		if r.spare == nil && cap(data) <= queuedBytesMax {
			r.spare = data
		}
		r.changed.Broadcast()
	}
	if r.gone {
		closeAll(r.files)
		r.queued, r.files = r.queued[:0], nil
	}
	r.sending = false
	r.changed.Broadcast()
	r.mu.Unlock()
}

// sendmsg sends data, with its files, and returns what was not taken. With `patient`, it waits for room.
func (r *reports) sendmsg(data []byte, files []int, patient bool) (rest []byte, err error) {
	r.rest, r.rights, r.patient, r.err = data, nil, patient, nil
	if len(files) > 0 {
		r.rights = syscall.UnixRights(files...)
	}
	if err := r.raw.Write(r.write); err != nil {
		return r.rest, err
	}
	return r.rest, r.err
}

// trySend is called again when there is room, if it returns false.
func (r *reports) trySend(fd uintptr) bool {
	for len(r.rest) > 0 {
		n, err := r.call(int(fd), r.rest, r.rights)
		if err == syscall.EINTR {
			continue
		}
		if r.err = err; err != nil {
			return err != syscall.EAGAIN || !r.patient
		}
		// The descriptors went with the first byte.
		r.rest, r.rights = r.rest[n:], nil
	}
	return true
}

// finish returns when everything was sent, or there is no reader any more.
func (r *reports) finish() {
	r.flush()
	r.mu.Lock()
	for r.sending {
		r.changed.Wait()
	}
	r.mu.Unlock()
}

func sendmsg(fd int, data, rights []byte) (int, error) {
	const flags = syscall.MSG_NOSIGNAL | syscall.MSG_DONTWAIT
	if rights == nil {
		return send(fd, data, flags)
	}
	return syscall.SendmsgN(fd, data, rights, nil, flags)
}
