package maitred

import (
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// smallFileBytes is what is cheaper to read and send than to pass.
const smallFileBytes = 64 << 10

// sniffBytes are looked at to find a Content-Type, as in net/http.
const sniffBytes = 512

var copyPool = sync.Pool{New: func() any {
	buffer := make([]byte, smallFileBytes)
	return &buffer
}}

// writerOnly hides ReadFrom from io.CopyBuffer.
type writerOnly struct{ io.Writer }

// ReadFrom is what io.ReaderFrom says. A file that completes a response of stated length is passed to Maitred.
func (w *response) ReadFrom(source io.Reader) (int64, error) {
	if file, offset, length := regularFile(source); length > 0 && w.completes(length) {
		w.passFile(file, offset, length)
		if w.err != nil {
			return 0, w.err
		}
		w.written += length
		if limited, ok := source.(*io.LimitedReader); ok {
			limited.N -= length
		}
		_, err := file.Seek(offset+length, io.SeekStart)
		return length, err
	}
	buffer := copyPool.Get().(*[]byte)
	defer copyPool.Put(buffer)
	return io.CopyBuffer(writerOnly{w}, source, *buffer)
}

// completes says that so many bytes are all that is missing of a response that has a body.
func (w *response) completes(length int64) bool {
	if w.mayWrite(0) != nil || w.drops() || !bodyAllowed(w.status) || w.x.flags&flagHead != 0 {
		return false
	}
	return w.contentLength >= 0 && w.written+length == w.contentLength
}

// plainFile is what is used of a file.
type plainFile interface {
	io.ReaderAt
	io.Seeker
	syscall.Conn
	Stat() (os.FileInfo, error)
}

// isOfOS says that a reader is a file, and not something of another package that has one and reads otherwise: an *os.File, or
// what io.Copy makes of one since Go 1.22, which has no exported name.
func isOfOS(source io.Reader) bool {
	if _, ok := source.(*os.File); ok {
		return true
	}
	return reflect.TypeOf(source).PkgPath() == "os"
}

// regularFile is what source will read, if it is a regular file or the beginning of one.
func regularFile(source io.Reader) (file plainFile, offset, length int64) {
	limit := int64(-1)
	if limited, ok := source.(*io.LimitedReader); ok {
		source, limit = limited.R, limited.N
	}
	file, ok := source.(plainFile)
	if !ok || !isOfOS(source) {
		return nil, 0, 0
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, 0, 0
	}
	if offset, err = file.Seek(0, io.SeekCurrent); err != nil {
		return nil, 0, 0
	}
	length = info.Size() - offset
	if limit >= 0 && limit < length {
		length = limit
	}
	return file, offset, length
}

// passFile sends the last part of the body. What is small is copied; the rest is Maitred's.
func (w *response) passFile(file plainFile, offset, length int64) {
	if length <= smallFileBytes {
		w.copyFile(file, offset, length)
		return
	}
	if !w.head.complete {
		first := w.piece
		if len(first) == 0 && !w.head.hasType {
			var room [sniffBytes]byte
			n, _ := file.ReadAt(room[:], offset)
			first = append(first, room[:n]...)
		}
		w.completeHead(first)
	}
	w.pushPiece(true)
	w.flushOut(true, true)
	if w.err != nil {
		return
	}
	fd, err := duplicateFile(file)
	if err != nil {
		w.fail(err)
		return
	}
	w.bodyBytes += uint64(length)
	w.tailFile(fd, offset, length)
}

func (w *response) copyFile(file plainFile, offset, length int64) {
	buffer := copyPool.Get().(*[]byte)
	defer copyPool.Put(buffer)
	n, err := file.ReadAt((*buffer)[:length], offset)
	if int64(n) < length {
		// It has become shorter than it was a moment ago.
		w.fail(err)
		return
	}
	if len(w.piece) > 0 {
		w.pushPiece(true)
	}
	w.push((*buffer)[:length], true)
}

// nameFile makes a file the body: the field X-Sendfile, where Maitred has named a root.
func (w *response) nameFile(root, path string) {
	if !bodyAllowed(w.status) || path == "" {
		return
	}
	file, size, err := openBelow(root, path)
	if err != nil {
		w.refuse("X-Sendfile: " + err.Error())
		return
	}
	w.sendfile, w.contentLength = file, size
	if _, has := w.fields["Content-Type"]; has || w.head.hasType {
		return
	}
	if kind := mime.TypeByExtension(filepath.Ext(path)); kind != "" {
		w.head.hasType = w.appendField("Content-Type", kind)
	}
}

// openPath is O_PATH, which package syscall does not name: it looks at what a path leads to, and does not open it.
const openPath = 0x200000

// openBelow opens a regular file that lies below root after all links in both were followed. Where it lies is asked of the kernel
// for the file that was found: links that change meanwhile lead nowhere else.
func openBelow(root, path string) (file *os.File, size int64, err error) {
	if !filepath.IsAbs(path) {
		return nil, 0, fmt.Errorf("%s is not absolute", path)
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, 0, fmt.Errorf("sendfile_root: %w", err)
	}
	fd, err := syscall.Open(path, openPath|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	found := "/proc/self/fd/" + strconv.Itoa(fd)
	place, err := os.Readlink(found)
	if err != nil {
		return nil, 0, err
	}
	if !strings.HasPrefix(place, strings.TrimSuffix(root, "/")+"/") {
		return nil, 0, fmt.Errorf("%s is not below %s", path, root)
	}
	var info syscall.Stat_t
	if err := syscall.Fstat(fd, &info); err != nil {
		return nil, 0, err
	}
	if info.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return nil, 0, fmt.Errorf("%s is no regular file", path)
	}
	if file, err = os.Open(found); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	return file, info.Size, nil
}

func (w *response) sendNamedFile() {
	w.written = w.contentLength
	if w.contentLength == 0 || w.x.flags&flagHead != 0 {
		w.pushPiece(true)
		return
	}
	w.passFile(w.sendfile, 0, w.contentLength)
}

func duplicateFile(file syscall.Conn) (int, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return -1, err
	}
	copied := -1
	controlled := raw.Control(func(fd uintptr) { copied, err = duplicate(int(fd)) })
	if controlled != nil {
		return -1, controlled
	}
	return copied, err
}

// memfdCreate is the number of memfd_create(2), which package syscall does not name.
var memfdCreate = map[string]uintptr{
	"386": 356, "amd64": 319, "arm": 385, "arm64": 279, "loong64": 279, "ppc64": 360, "ppc64le": 360, "riscv64": 279, "s390x": 350,
}[runtime.GOARCH]

// memoryFile is a file without a name that holds data: in memory, or, where that is not possible, on disk.
func memoryFile(data []byte) (int, error) {
	fd, err := openMemoryFile()
	if err != nil {
		return -1, err
	}
	for len(data) > 0 {
		n, err := syscall.Write(fd, data)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			syscall.Close(fd)
			return -1, err
		}
		data = data[n:]
	}
	return fd, nil
}

func openMemoryFile() (int, error) {
	if memfdCreate != 0 {
		name := [...]byte{'r', 'e', 's', 't', 0}
		const closeOnExec = 1
		if fd, _, errno := syscall.Syscall(memfdCreate, uintptr(unsafe.Pointer(&name[0])), closeOnExec, 0); errno == 0 {
			return int(fd), nil
		}
	}
	file, err := os.CreateTemp("", "response")
	if err != nil {
		return -1, err
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return -1, err
	}
	return duplicateFile(file)
}
