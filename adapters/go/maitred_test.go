package maitred

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"maitred/maitredtest"
)

// The tests below run this test program behind the real Maitred: it is the application if Maitred has started it.

func TestMain(m *testing.M) {
	if Started() {
		log.SetFlags(0)
		if err := Serve(application()); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

func application() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/bytes/", func(w http.ResponseWriter, r *http.Request) {
		count, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/bytes/"))
		w.Header().Set("Content-Length", strconv.Itoa(count))
		w.Write(bytes.Repeat([]byte("x"), count))
	})
	mux.HandleFunc("/sum", func(w http.ResponseWriter, r *http.Request) {
		hash := sha256.New()
		count, err := io.Copy(hash, r.Body)
		fmt.Fprintf(w, "%d %x %v %d", count, hash.Sum(nil), err, r.ContentLength)
	})
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		for i := 0; r.Context().Err() == nil; i++ {
			fmt.Fprintln(w, i)
			w.(http.Flusher).Flush()
		}
		log.Print("the client has gone")
	})
	mux.HandleFunc("/pids", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, os.Getpid(), os.Getppid()) })
	mux.HandleFunc("/crash", func(http.ResponseWriter, *http.Request) { os.Exit(3) })
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, os.Args[0]) })
	mux.HandleFunc("/hints", hints)
	mux.HandleFunc("/trailers", summed)
	mux.HandleFunc("/silent", silent)
	mux.HandleFunc("/named", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Sendfile", r.URL.RawQuery)
		io.WriteString(w, "instead")
	})
	mux.HandleFunc("/upper", func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		line, _ := buffered.ReadString('\n')
		io.WriteString(conn, strings.ToUpper(line))
	})
	return mux
}

// maitred is a running server.
type maitred struct {
	*maitredtest.Server
	t *testing.T
}

const configurationOf = `
[server]
share_user = true
threads = 2
affinity = "off"

[[listen]]
address = "127.0.0.1:0"

[limits]
body_bytes_max = "64MiB"

[log]
access = "off"

[[site]]

[[site.route]]
path = "/*"
pool = "app"

[pool.app]
command = [%q]
workers = 2
queue = { timeout = "60s" }
%s
`

func startMaitred(t *testing.T, pool string) *maitred {
	t.Helper()
	return &maitred{maitredtest.Start(t, fmt.Sprintf(configurationOf, os.Args[0], pool)), t}
}

func (m *maitred) client() *http.Client {
	client := &http.Client{Timeout: deadline, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	m.t.Cleanup(client.CloseIdleConnections)
	return client
}

func (m *maitred) get(client *http.Client, path string) (int, string, error) {
	response, err := client.Get(m.URL(path))
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

func transports(t *testing.T, test func(t *testing.T, m *maitred)) {
	for _, transport := range []string{"direct", "relay"} {
		t.Run(transport, func(t *testing.T) {
			test(t, startMaitred(t, fmt.Sprintf("transport = %q", transport)))
		})
	}
}

func TestManyRequestsAtATime(t *testing.T) {
	transports(t, func(t *testing.T, m *maitred) {
		client := m.client()
		var all sync.WaitGroup
		for i := 0; i < 40; i++ {
			i := i
			all.Add(1)
			go func() {
				defer all.Done()
				for n := 0; n < 50; n++ {
					size := (i*n*n*37 + 1) % 300_000
					status, body, err := m.get(client, fmt.Sprint("/bytes/", size))
					if err != nil || status != 200 || body != strings.Repeat("x", size) {
						t.Errorf("%d bytes: status %d, %d bytes, %v", size, status, len(body), err)
						return
					}
				}
			}()
		}
		all.Wait()
		if said, err := m.Stop(); err != nil || strings.Contains(said, "WARN") || strings.Contains(said, "ERROR") {
			t.Errorf("%v; said at the end:\n%s", err, said)
		}
	})
}

func TestLargeBodiesArriveWhole(t *testing.T) {
	transports(t, func(t *testing.T, m *maitred) {
		for _, size := range []int{0, 1, 100_000, 3_000_000, 20_000_000} {
			data := bytes.Repeat([]byte("abcdefg"), size/7+1)[:size]
			// A reader that net/http does not know the size of: chunks.
			for _, body := range []io.Reader{bytes.NewReader(data), io.MultiReader(bytes.NewReader(data))} {
				response, err := m.client().Post(m.URL("/sum"), "text/plain", body)
				if err != nil {
					t.Fatal(err)
				}
				found, _ := io.ReadAll(response.Body)
				response.Body.Close()
				if wanted := fmt.Sprintf("%d %x <nil> %d", size, sha256.Sum256(data), size); string(found) != wanted {
					t.Errorf("found %s, wanted %s", found, wanted)
				}
			}
		}
	})
}

func TestFilesArriveWholeAndInParts(t *testing.T) {
	wanted, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	transports(t, func(t *testing.T, m *maitred) {
		if _, body, err := m.get(m.client(), "/file"); body != string(wanted) {
			t.Errorf("%d bytes, %v", len(body), err)
		}
		request, _ := http.NewRequest("GET", m.URL("/file"), nil)
		request.Header.Set("Range", "bytes=1000-1000999")
		response, err := m.client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); response.StatusCode != 206 || !bytes.Equal(body, wanted[1000:1001000]) {
			t.Errorf("%s, %d bytes, %v", response.Status, len(body), err)
		}
	})
}

func TestAClientThatLeavesEndsItsRequest(t *testing.T) {
	transports(t, func(t *testing.T, m *maitred) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		request, _ := http.NewRequestWithContext(ctx, "GET", m.URL("/stream"), nil)
		response, err := m.client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(response.Body, make([]byte, 1000)); err != nil {
			t.Error(err)
		}
		cancel()
		response.Body.Close()
		m.Says(regexp.MustCompile("the client has gone"))
	})
}

func TestAnUpgradeTakesTheConnectionOver(t *testing.T) {
	transports(t, func(t *testing.T, m *maitred) {
		conn, err := net.Dial("tcp", m.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(deadline))
		io.WriteString(conn, "GET /upper HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		reader := bufio.NewReader(conn)
		response, err := http.ReadResponse(reader, nil)
		if err != nil || response.StatusCode != 101 || response.Header.Get("Upgrade") != "websocket" {
			t.Fatal(response, err)
		}
		io.WriteString(conn, "hello\n")
		if rest, err := io.ReadAll(reader); string(rest) != "HELLO\n" || err != nil {
			t.Errorf("%q, %v", rest, err)
		}
	})
}

func TestAProcessThatDiesIsReplaced(t *testing.T) {
	m := startMaitred(t, "")
	// Not a safe method, which Maitred would give to another process.
	response, err := m.client().Post(m.URL("/crash"), "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 502 {
		t.Errorf("status %d", response.StatusCode)
	}
	if status, body, err := m.get(m.client(), "/bytes/3"); status != 200 || body != "xxx" {
		t.Errorf("status %d, %q, %v", status, body, err)
	}
}

// workerProcess is the process of Maitred that has the clients' connections.
func workerProcess(t *testing.T, master int) int {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", master, master))
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range strings.Fields(string(children)) {
		line, _ := os.ReadFile("/proc/" + child + "/cmdline")
		if pid, err := strconv.Atoi(child); err == nil && strings.HasPrefix(string(line), "maitred: worker") {
			return pid
		}
	}
	t.Fatalf("no worker process among %s", children)
	return 0
}

func TestProcessesOutliveTheWorkerProcess(t *testing.T) {
	for _, transport := range []string{"direct", "relay"} {
		configuration := fmt.Sprintf(configurationOf, os.Args[0], fmt.Sprintf("transport = %q", transport))
		m := &maitred{maitredtest.Start(t, strings.Replace(configuration, "workers = 2", "workers = 1", 1)), t}
		pids := func() (own, master int) {
			// On a new connection: the one before may have ended with its worker process.
			_, body, err := m.get(m.client(), "/pids")
			if _, failed := fmt.Sscan(body, &own, &master); err != nil || failed != nil {
				t.Fatalf("%q: %v", body, err)
			}
			return own, master
		}
		before, master := pids()
		streams := m.client()
		if response, err := streams.Get(m.URL("/stream")); err != nil || response.StatusCode != 200 {
			t.Fatalf("the stream does not begin: %v", err)
		}
		for i := 0; i < 3; i++ {
			worker := workerProcess(t, master)
			if err := syscall.Kill(worker, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			for isThere(worker) {
				runtime.Gosched()
			}
			if own, _ := pids(); own != before {
				t.Fatalf("process %d answers, before it was %d", own, before)
			}
		}
		// The context of the request that ran was cancelled.
		m.Says(regexp.MustCompile("the client has gone"))
	}
}

// isThere tells whether a process runs; one that has ended and was not reaped does not.
func isThere(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z")
}
