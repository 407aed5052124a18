//go:build go1.21

package maitred

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func TestDroppedFieldsAreSaidOnceAtDebug(t *testing.T) {
	dropped = sync.Map{}
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
