// A small site with the router chi, behind Maitred or by itself on :8081.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"maitred"
)

func main() {
	if err := maitred.ListenAndServe("127.0.0.1:8081", site()); err != nil {
		log.Fatal(err)
	}
}

func site() http.Handler {
	router := chi.NewRouter()
	router.Use(middleware.Recoverer, middleware.Compress(5), middleware.Timeout(30*time.Second))
	router.Get("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "<!DOCTYPE html>\n<p>Hello, %s. <a href=\"%s/users/1\">A user</a>\n", r.RemoteAddr, maitred.Mount(r))
	})
	router.Get("/users/{id}", user)
	router.Post("/users", create)
	router.Get("/ticks", ticks)
	router.Get("/source", func(w http.ResponseWriter, r *http.Request) {
		// Maitred delivers it.
		http.ServeFile(w, r, "main.go")
	})
	return router
}

func user(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"id": chi.URLParam(r, "id")})
}

func create(w http.ResponseWriter, r *http.Request) {
	var sent struct{ Name string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&sent); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Location", maitred.Mount(r)+"/users/"+sent.Name)
	w.WriteHeader(http.StatusCreated)
}

// ticks are server-sent events until the client leaves.
func ticks(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for n := 1; ; n++ {
		fmt.Fprintf(w, "data: %d\n\n", n)
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
	}
}
