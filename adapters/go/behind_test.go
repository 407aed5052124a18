package maitred

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEarlyHintsReachTheClient(t *testing.T) {
	for _, transport := range []string{"direct", "relay"} {
		for _, who := range []string{"always", "http2"} {
			t.Run(transport+" "+who, func(t *testing.T) {
				m := startMaitred(t, fmt.Sprintf("transport = %q\nearly_hints = %q", transport, who))
				var seen []string
				trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, fields textproto.MIMEHeader) error {
					seen = append(seen, fmt.Sprint(code, fields["Link"]))
					return nil
				}}
				request, _ := http.NewRequestWithContext(httptrace.WithClientTrace(noContext, trace), "GET", m.URL("/hints"), nil)
				response, err := m.client().Do(request)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				body, err := io.ReadAll(response.Body)
				if response.StatusCode != 200 || string(body) != "hello" || err != nil {
					t.Errorf("%s, %q, %v", response.Status, body, err)
				}
				wanted := "[]"
				if who == "always" {
					wanted = "[103 [</a.css>; rel=preload]]"
				}
				if found := fmt.Sprint(seen); found != wanted {
					t.Errorf("found %s, wanted %s", found, wanted)
				}
			})
		}
	}
}

func TestTheRootOfNamedFilesIsThePools(t *testing.T) {
	root := t.TempDir()
	name := filepath.Join(root, "file")
	if err := os.WriteFile(name, []byte(strings.Repeat("f", 200_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, transport := range []string{"direct", "relay"} {
		m := startMaitred(t, fmt.Sprintf("transport = %q\nsendfile_root = %q", transport, root))
		if status, body, err := m.get(m.client(), "/named?"+name); status != 200 || len(body) != 200_000 || err != nil {
			t.Errorf("status %d, %d bytes, %v", status, len(body), err)
		}
		if status, body, err := m.get(m.client(), "/named?/etc/passwd"); status != 500 || strings.Contains(body, "root:") || err != nil {
			t.Errorf("status %d, %q, %v", status, body, err)
		}
		m = startMaitred(t, fmt.Sprintf("transport = %q", transport))
		if status, body, err := m.get(m.client(), "/named?"+name); status != 200 || body != "instead" || err != nil {
			t.Errorf("without a root: status %d, %q, %v", status, body, err)
		}
	}
}
