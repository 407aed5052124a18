package frameworks

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/webdav"

	"maitred/maitredtest"
)

func init() {
	sites["webdav"] = func(folder string) http.Handler {
		return &webdav.Handler{FileSystem: webdav.Dir(folder), LockSystem: webdav.NewMemLS()}
	}
}

const lockBody = `<?xml version="1.0"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope>` +
	`<D:locktype><D:write/></D:locktype></D:lockinfo>`

func TestWebDAV(t *testing.T) {
	dav := func(t *testing.T, base string, method, path, body string, fields ...string) (*http.Response, string) {
		t.Helper()
		sent, err := http.NewRequest(method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(fields); i += 2 {
			sent.Header.Set(fields[i], strings.ReplaceAll(fields[i+1], "BASE", base))
		}
		client := http.Client{Timeout: maitredtest.Deadline}
		response, err := client.Do(sent)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		said, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response, string(said)
	}
	large := strings.Repeat("0123456789", 300_000)
	check := func(t *testing.T, base string) {
		t.Helper()
		expect := func(status int, method, path, body string, fields ...string) (*http.Response, string) {
			t.Helper()
			response, said := dav(t, base, method, path, body, fields...)
			if response.StatusCode != status {
				t.Errorf("%s %s: %s, %q", method, path, response.Status, said)
			}
			return response, said
		}
		expect(201, "MKCOL", "/folder", "")
		expect(201, "PUT", "/folder/small.txt", "small")
		expect(201, "PUT", "/folder/large.bin", large)
		if _, said := expect(200, "GET", "/folder/large.bin", ""); said != large {
			t.Errorf("%d bytes of %d", len(said), len(large))
		}
		options, _ := expect(200, "OPTIONS", "/folder", "")
		if options.Header.Get("Dav") == "" || options.Header.Get("Allow") == "" {
			t.Errorf("OPTIONS: %v", options.Header)
		}
		if _, said := expect(207, "PROPFIND", "/folder/", "", "Depth", "1"); strings.Count(said, "<D:response>") != 3 {
			t.Errorf("PROPFIND: %q", said)
		}
		expect(201, "COPY", "/folder/small.txt", "", "Destination", "BASE/copy.txt")
		expect(201, "MOVE", "/copy.txt", "", "Destination", "BASE/moved.txt")
		response, _ := expect(200, "LOCK", "/moved.txt", lockBody, "Content-Type", "application/xml", "Timeout", "Second-600")
		token := response.Header.Get("Lock-Token")
		expect(423, "PUT", "/moved.txt", "not without the token")
		expect(204, "UNLOCK", "/moved.txt", "", "Lock-Token", token)
		expect(204, "DELETE", "/moved.txt", "")
		expect(404, "GET", "/moved.txt", "")
		expect(204, "DELETE", "/folder", "")
	}
	folder := filepath.Join(t.TempDir(), "dav")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	everywhere(t, "webdav", folder, check)
}
