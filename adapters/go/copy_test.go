package maitred

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// reversed is a file that reads otherwise.
type reversed struct{ plainFile }

func (r reversed) Read(data []byte) (int, error) {
	n, err := r.plainFile.(io.Reader).Read(data)
	for i := range data[:n] {
		data[i] ^= 0xff
	}
	return n, err
}

// io.Copy does not pass the file itself on since Go 1.22; what only has a file is read.
func TestACopiedFileIsLeftToMaitred(t *testing.T) {
	data := bytes.Repeat([]byte("file "), 40000)
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return
		}
		defer file.Close()
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		var n int64
		if r.URL.Path == "/reversed" {
			n, err = w.(io.ReaderFrom).ReadFrom(reversed{file})
		} else {
			n, err = io.Copy(w, file)
		}
		if n != int64(len(data)) || err != nil {
			t.Errorf("copied %d bytes, %v", n, err)
		}
	}))
	c := s.begin(ask{target: "/", flags: flagKeep})
	if f := s.done(); len(f.tails) != 1 || f.tails[0] != flagFile || !bytes.Equal(f.tail, data) {
		t.Errorf("%d tails, flags %v, %d bytes", len(f.tails), f.tails, len(f.tail))
	}
	s.forget(c)
	c = s.begin(ask{target: "/reversed", flags: flagKeep})
	all := make(chan []byte)
	go func() {
		read, _ := io.ReadAll(c)
		all <- read
	}()
	f := s.done()
	s.forget(c)
	found := append(<-all, f.tail...)
	for i := range data {
		data[i] ^= 0xff
	}
	if !bytes.HasSuffix(found, data) {
		t.Error("a reader that has a file was not read")
	}
}
