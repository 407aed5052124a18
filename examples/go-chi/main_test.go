package main

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"maitred"
)

const deadline = 60 * time.Second

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
	binary := os.Getenv("MAITRED")
	if binary == "" {
		binary, _ = filepath.Abs("../../target/debug/maitred")
		if _, err := os.Stat(binary); err != nil {
			t.Skipf("there is no Maitred to test with (cargo build -p maitred): %v", err)
		}
	}
	text, err := os.ReadFile("maitred.toml")
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer(`":8080"`, `"127.0.0.1:0"`, `"./go-chi"`, `"`+os.Args[0]+`"`).Replace(string(text))
	configuration := filepath.Join(t.TempDir(), "maitred.toml")
	if err := os.WriteFile(configuration, []byte(changed+"cwd = \""+here+"\"\nqueue = { timeout = \"60s\" }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(binary, "run", "-c", configuration)
	output, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout = command.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	killer := time.AfterFunc(3*deadline, func() { _ = command.Process.Kill() })
	found := make(chan string, 1)
	ended := make(chan string, 1)
	go read(output, found, ended)
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		said := <-ended
		if err := command.Wait(); err != nil {
			t.Errorf("%v; it said:\n%s", err, said)
		}
		killer.Stop()
	})
	select {
	case address := <-found:
		return address
	case <-time.After(deadline):
		t.Fatal("Maitred does not say where it listens")
		return ""
	}
}

func read(output io.Reader, found, ended chan<- string) {
	listens := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	var said strings.Builder
	told := false
	for scanner := bufio.NewScanner(output); scanner.Scan(); {
		said.WriteString(scanner.Text() + "\n")
		if address := listens.FindString(scanner.Text()); address != "" && !told {
			told = true
			found <- address
		}
	}
	ended <- said.String()
}

// answer is what is compared.
type answer struct{ status, kind, encoding, location, body string }

func ask(t *testing.T, base, method, path, body string) answer {
	t.Helper()
	request, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: deadline}
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
	client := http.Client{Timeout: deadline}
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
