//go:build go1.21

package maitred

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

func TestDroppedFieldsAreSaidOnceAtDebug(t *testing.T) {
	forgetDropped()
	before, said := slog.Default(), &buffer{}
	slog.SetDefault(slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer slog.SetDefault(before)
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "keep-alive, x-named")
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("X-Named", "1")
	}))
	for i := 0; i < 2; i++ {
		s.exchange(ask{target: "/", flags: flagKeep})
	}
	for _, name := range []string{"Connection", "Keep-Alive", "X-Named"} {
		if count := strings.Count(said.String(), "level=DEBUG") - strings.Count(said.String(), "field="+name+"\n"); count != 2 {
			t.Errorf("%s was not said once:\n%s", name, said)
		}
	}
}

// A handler that repeats what its client says does not fill memory.
func TestNamesOfDroppedFieldsAreBounded(t *testing.T) {
	forgetDropped()
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", r.URL.RawQuery)
		w.Header().Set(r.URL.RawQuery, "1")
	}))
	for i := 0; i < 2*droppedMax; i++ {
		if raw, _ := s.exchange(ask{target: fmt.Sprint("/?X-", i), flags: flagKeep}); strings.Contains(raw, "X-") {
			t.Errorf("%q", raw)
		}
	}
	count := 0
	dropped.Range(func(any, any) bool { count++; return true })
	if count != droppedMax {
		t.Errorf("%d names are remembered", count)
	}
}

func forgetDropped() {
	dropped.Range(func(name, _ any) bool { dropped.Delete(name); return true })
	droppedCount.Store(0)
}
