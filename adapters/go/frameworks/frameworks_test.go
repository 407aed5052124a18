// Package frameworks tests packages that people have: the same requests to the application by itself and behind Maitred.
package frameworks

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"maitred"
	"maitred/maitredtest"
)

// TestMain makes this program the application, if Maitred has started it.
func TestMain(m *testing.M) {
	if !maitred.Started() {
		os.Exit(m.Run())
	}
	if err := maitred.ListenAndServe("", sites[os.Getenv("SITE")](os.Getenv("FILE"))); err != nil {
		panic(err)
	}
}

// start runs Maitred with a site, and returns where it listens.
func start(t *testing.T, site, file string) string { return startOver(t, site, file, "auto") }

func startOver(t *testing.T, site, file, transport string) string {
	place := strings.NewReplacer("PROGRAM", os.Args[0], "SITE_NAME", site, "FILE_NAME", file, "TRANSPORT", transport)
	text := place.Replace(`
[server]
share_user = true
[[listen]]
address = "127.0.0.1:0"
[[site]]
[[site.route]]
path = "/*"
pool = "app"
[pool.app]
command = ["PROGRAM"]
transport = "TRANSPORT"
env = { SITE = "SITE_NAME", FILE = "FILE_NAME" }
workers = 1
queue = { timeout = "60s" }
`)
	return maitredtest.Start(t, text).URL("")
}

// request is what is asked; its host is the same both ways.
type request struct{ method, path, kind, body string }

// answer is what is compared.
type answer struct {
	status       int
	kind, coding string
	length       int64
	body         string
}

func ask(t *testing.T, base string, r request) answer {
	sent, err := http.NewRequest(r.method, base+r.path, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	sent.Host = "example.test"
	sent.Header.Set("Content-Type", r.kind)
	client := http.Client{Timeout: maitredtest.Deadline}
	response, err := client.Do(sent)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	coding := strings.Join(response.TransferEncoding, ",")
	return answer{response.StatusCode, response.Header.Get("Content-Type"), coding, response.ContentLength, string(body)}
}

// form is a form with a file of so many bytes.
func form(t *testing.T, size int) (kind, body string) {
	var written bytes.Buffer
	writer := multipart.NewWriter(&written)
	if err := writer.WriteField("title", "größe"); err != nil {
		t.Fatal(err)
	}
	part, err := writer.CreateFormFile("file", "a file.bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(part, strings.Repeat("b", size)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return writer.FormDataContentType(), written.String()
}

func TestSitesAreTheSameBehindMaitred(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file.txt")
	if err := os.WriteFile(file, []byte(strings.Repeat("in a file ", 50_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	kind, small := form(t, 1000)
	largeKind, large := form(t, 3_000_000)
	requests := map[request]int{
		{"GET", "/text", "", ""}: 200,
		{"POST", "/json", "application/json", `{"a":[1,2],"b":"ü"}`}: 200,
		{"POST", "/json", "application/json", `{`}:                   400,
		{"GET", "/stream", "", ""}:                                   200,
		{"POST", "/upload", kind, small}:                             200,
		{"POST", "/upload", largeKind, large}:                        200,
		{"POST", "/upload", "text/plain", "no form"}:                 400,
		{"GET", "/error", "", ""}:                                    500,
		{"GET", "/file", "", ""}:                                     200,
		{"HEAD", "/file", "", ""}:                                    200,
		{"GET", "/none", "", ""}:                                     404,
	}
	for _, name := range []string{"gin", "chi"} {
		site := sites[name]
		t.Run(name, func(t *testing.T) {
			alone := httptest.NewServer(site(file))
			defer alone.Close()
			behind := start(t, name, file)
			for r, status := range requests {
				wanted, found := ask(t, alone.URL, r), ask(t, behind, r)
				if found != wanted || found.status != status {
					found.body, wanted.body = short(found.body), short(wanted.body)
					t.Errorf("%s %s: found %+v, alone %+v, and %d was expected", r.method, r.path, found, wanted, status)
				}
			}
		})
	}
}

// short is the beginning of a text, to be shown.
func short(text string) string {
	if len(text) > 200 {
		return text[:200]
	}
	return text
}
