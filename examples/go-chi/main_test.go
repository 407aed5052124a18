package main

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"maitred"
	"maitred/maitredtest"
)

// This test program is the example's program, too, if Maitred has started it.
func TestMain(m *testing.M) {
	if maitred.Started() {
		main()
		return
	}
	os.Exit(m.Run())
}

// start runs Maitred with the example's configuration, except for its address, and returns where it listens.
func start(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("maitred.toml")
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer(`":8080"`, `"127.0.0.1:0"`, `"./go-chi"`, `"`+os.Args[0]+`"`).Replace(string(text))
	server := maitredtest.Start(t, changed+"cwd = \""+here+"\"\nqueue = { timeout = \"60s\" }\n")
	return server.URL("")
}

// answer is what is compared.
type answer struct{ status, kind, encoding, location, body string }

func ask(t *testing.T, base, method, path, body string) answer {
	t.Helper()
	request, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: maitredtest.Deadline}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	fields := response.Header
	return answer{
		response.Status, fields.Get("Content-Type"), fields.Get("Content-Encoding"), fields.Get("Location"), string(received),
	}
}

func TestTheSiteIsTheSameBehindMaitred(t *testing.T) {
	alone := httptest.NewServer(site())
	defer alone.Close()
	behind := start(t) + "/app"
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/users/7", ""},
		{"GET", "/users/a%20b", ""},
		{"HEAD", "/users/7", ""},
		{"GET", "/source", ""},
		{"GET", "/nowhere", ""},
		{"DELETE", "/users/7", ""},
		{"POST", "/users", `{"name": "mary"}`},
		{"POST", "/users", `{`},
		{"POST", "/users", `{"name": "` + strings.Repeat("x", 2<<20) + `"}`},
	} {
		wanted, found := ask(t, alone.URL, c.method, c.path, c.body), ask(t, behind, c.method, c.path, c.body)
		if wanted.location != "" {
			wanted.location = "/app" + wanted.location
		}
		if found != wanted {
			t.Errorf("%s %s: found %+v, wanted %+v", c.method, c.path, found, wanted)
		}
	}
	if found := ask(t, behind, "GET", "/", ""); !strings.Contains(found.body, `href="/app/users/1"`) {
		t.Errorf("the link does not begin with the mount: %+v", found)
	}
}

func TestEventsComeOneByOne(t *testing.T) {
	client := http.Client{Timeout: maitredtest.Deadline}
	response, err := client.Get(start(t) + "/app/ticks")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	reader := bufio.NewReader(response.Body)
	for _, wanted := range []string{"data: 1\n", "\n", "data: 2\n"} {
		if line, err := reader.ReadString('\n'); line != wanted || err != nil {
			t.Fatalf("found %q (%v), wanted %q", line, err, wanted)
		}
	}
}
