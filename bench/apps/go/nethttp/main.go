// net/http without a framework: /bytes/N is N bytes.
package main

import (
	"bytes"
	"net/http"
	"strconv"

	"bench/apps"
)

var content = bytes.Repeat([]byte("x"), 1<<20)

func main() {
	http.HandleFunc("/bytes/{count}", func(w http.ResponseWriter, r *http.Request) {
		count, err := strconv.Atoi(r.PathValue("count"))
		if err != nil || count > len(content) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", strconv.Itoa(count))
		_, _ = w.Write(content[:count])
	})
	apps.Serve(http.DefaultServeMux)
}
