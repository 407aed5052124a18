package maitred

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

const metaTrailers = metaBefore + "trailers=1\n"

// summed announces one trailer, and has others.
func summed(w http.ResponseWriter, r *http.Request) {
	if length := r.Header.Get("X-Length"); length != "" {
		w.Header().Set("Content-Length", length)
	}
	w.Header().Set("Trailer", "X-Sum, Host")
	io.WriteString(w, "body")
	w.Header().Set("X-Sum", "4")
	w.Header().Set("Host", "x")
	w.Header().Set(http.TrailerPrefix+"Content-Length", "9")
	w.Header().Set(http.TrailerPrefix+"set-cookie", "a=b")
	w.Header().Set(http.TrailerPrefix+"X-Bad", "a\r\nb: c")
}

func TestTrailersAreForClientsThatTakeThem(t *testing.T) {
	m := start(t, http.HandlerFunc(summed))
	for name, a := range map[string]ask{
		"taken":         {meta: metaTrailers, flags: flagKeep},
		"not taken":     {meta: metaBefore, flags: flagKeep},
		"refused":       {meta: metaBefore + "trailers=0\n", flags: flagKeep},
		"HTTP/1.0":      {meta: metaTrailers, flags: flagHTTP10},
		"HEAD":          {meta: metaTrailers, flags: flagKeep, method: "HEAD"},
		"stated length": {meta: metaTrailers, flags: flagKeep, fields: []string{"x-length: 4"}},
	} {
		if a.method == "" {
			a.method = "GET"
		}
		a.target = "/"
		response, body, _ := m.get(a)
		wanted := "map[]"
		if name == "taken" {
			wanted = "map[X-Sum:[4]]"
		}
		if found := fmt.Sprint(response.Trailer); found != wanted {
			t.Errorf("%s: found %s, wanted %s", name, found, wanted)
		}
		if (body != "body") != (name == "HEAD") {
			t.Errorf("%s: %q", name, body)
		}
	}
}

func TestTrailersAreBounded(t *testing.T) {
	m := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values := make([]string, len(r.Header["X-Size"]))
		for i, size := range r.Header["X-Size"] {
			var count int
			fmt.Sscan(size, &count)
			values[i] = strings.Repeat("y", count)
		}
		w.Header()[http.TrailerPrefix+"X"] = values
	}))
	for _, c := range []struct{ size, count, wanted int }{{1, 32, 32}, {1, 33, 0}, {8185, 1, 1}, {8186, 1, 0}} {
		a := ask{method: "GET", target: "/", meta: metaTrailers, flags: flagKeep}
		for i := 0; i < c.count; i++ {
			a.fields = append(a.fields, fmt.Sprint("x-size: ", c.size))
		}
		// http.ReadResponse reads no trailers of this size.
		raw, f := m.exchange(a)
		if found := strings.Count(raw, "\r\nX: y"); found != c.wanted || f.flags != flagClean {
			t.Errorf("%+v: found %d, flags %d", c, found, f.flags)
		}
	}
}

func TestTrailersReachTheClient(t *testing.T) {
	for _, transport := range []string{"direct", "relay"} {
		m := startMaitred(t, fmt.Sprintf("transport = %q", transport))
		for _, te := range []string{"trailers", "gzip", "trailers"} {
			request, _ := http.NewRequestWithContext(noContext, "GET", m.URL("/trailers"), nil)
			request.Header.Set("TE", te)
			response, err := m.client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			wanted := "map[]"
			if te == "trailers" {
				wanted = "map[X-Sum:[4]]"
			}
			if found := fmt.Sprint(response.Trailer); string(body) != "body" || err != nil || found != wanted {
				t.Errorf("%s, TE: %s: %q, %v, found %s, wanted %s", transport, te, body, err, found, wanted)
			}
		}
		if curl, err := exec.LookPath("curl"); err == nil {
			said, err := exec.Command(curl, "-sv", "--max-time", "60", "--http2-prior-knowledge", m.URL("/trailers")).CombinedOutput()
			_, behind, _ := strings.Cut(string(said), "< \r\n")
			if err != nil || !strings.Contains(behind, "< x-sum: 4") || strings.Contains(string(said), "content-length") {
				t.Errorf("%s over HTTP/2: %v, %s", transport, err, said)
			}
		}
	}
}
