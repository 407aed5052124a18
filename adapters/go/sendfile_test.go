package maitred

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// sendfileTree has a root with a file, a link to it, and ways out.
func sendfileTree(t *testing.T) (root, outside string) {
	t.Helper()
	place := t.TempDir()
	// The root itself is named by a link.
	real, root := filepath.Join(place, "real"), filepath.Join(place, "root")
	outside = filepath.Join(place, "real-secret")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(real, "sub"), 0o700),
		os.Symlink("real", root),
		os.WriteFile(filepath.Join(real, "sub", "file.txt"), []byte(strings.Repeat("f", 100_000)), 0o600),
		os.WriteFile(filepath.Join(real, "empty"), nil, 0o600),
		os.WriteFile(outside, []byte("secret"), 0o600),
		os.Symlink("sub/file.txt", filepath.Join(real, "link.txt")),
		os.Symlink(outside, filepath.Join(real, "out")),
		os.Symlink("..", filepath.Join(real, "up")),
		syscall.Mkfifo(filepath.Join(real, "pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return root, outside
}

func TestFilesBelowTheRootAreSentByName(t *testing.T) {
	root, _ := sendfileTree(t)
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Sendfile", r.Header.Get("X-Path"))
		io.WriteString(w, "dropped")
	}))
	get := func(path string) (*http.Response, string, finished) {
		return s.get(ask{
			target: "/", flags: flagKeep, meta: metaBefore + "sendfile_root=" + root + "\n", fields: []string{"x-path: " + path},
		})
	}
	for path, length := range map[string]int{
		root + "/sub/file.txt": 100_000, root + "/link.txt": 100_000, root + "/../root/sub/../link.txt": 100_000, root + "/empty": 0,
	} {
		response, body, f := get(path)
		if response.StatusCode != 200 || len(body) != length || f.flags != flagClean || response.Header["X-Sendfile"] != nil {
			t.Errorf("%s: %+v, %d bytes, DONE says %+v", path, response, len(body), f.done)
		}
	}
	for path, why := range map[string]string{
		root + "-secret": "no such file", root + "/../real-secret": "is not below", root + "/out": "is not below",
		root + "/up/real-secret": "is not below", root + "/pipe": "no regular file", root: "is not below",
		root + "/sub": "no regular file", "/etc/passwd": "is not below", "sub/file.txt": "not absolute", root + "/none": "no such file",
		"/proc/self/root/etc/passwd": "is not below",
	} {
		before := len(s.log.String())
		response, body, f := get(path)
		if response.StatusCode != 500 || strings.Contains(body, "secret") || strings.Contains(body, "dropped") || f.flags != flagClean {
			t.Errorf("%s: %+v, %q, DONE says %+v", path, response, body, f.done)
		}
		if text := s.log.String()[before:]; !strings.Contains(text, why) {
			t.Errorf("%s: logged %q", path, text)
		}
	}
}

// What a handler repeats of others' fields gives no file away.
func TestWithoutARootXSendfileIsAFieldAsAnyOther(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Sendfile", "/etc/passwd")
		io.WriteString(w, "body")
	}))
	for _, meta := range []string{metaBefore, metaBefore + "sendfile_root=\n"} {
		response, body, f := s.get(ask{target: "/", flags: flagKeep, meta: meta})
		if response.StatusCode != 200 || body != "body" || response.Header.Get("X-Sendfile") != "/etc/passwd" || f.flags != flagClean {
			t.Errorf("%+v, %q, DONE says %+v", response, body, f.done)
		}
	}
}
