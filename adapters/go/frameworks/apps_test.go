package frameworks

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

const formBytesMax = 1 << 20

// sites are the same small application, with each framework.
var sites = map[string]func(file string) http.Handler{"gin": ginSite, "chi": chiSite}

func ginSite(file string) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.Use(gin.RecoveryWithWriter(io.Discard))
	router.MaxMultipartMemory = formBytesMax
	router.GET("/text", func(c *gin.Context) { c.String(http.StatusOK, "text for %s", c.ClientIP()) })
	router.POST("/json", func(c *gin.Context) {
		var sent map[string]any
		if err := c.ShouldBindJSON(&sent); err != nil {
			c.JSON(http.StatusBadRequest, gin.H{"error": "no JSON"})
			return
		}
		c.JSON(http.StatusOK, sent)
	})
	router.GET("/stream", func(c *gin.Context) {
		n := 0
		c.Stream(func(w io.Writer) bool {
			n++
			fmt.Fprintf(w, "piece %d\n", n)
			return n < 3
		})
	})
	router.POST("/upload", func(c *gin.Context) {
		header, err := c.FormFile("file")
		if err != nil {
			c.String(http.StatusBadRequest, "no file")
			return
		}
		opened, err := header.Open()
		if err != nil {
			panic(err)
		}
		defer opened.Close()
		c.String(http.StatusOK, "%s %s %s", c.PostForm("title"), header.Filename, sum(opened))
	})
	router.GET("/error", func(*gin.Context) { panic("asked for") })
	router.StaticFile("/file", file)
	return router
}

func chiSite(file string) http.Handler {
	router := chi.NewRouter()
	router.Use(recovered, middleware.Timeout(30*time.Second))
	router.Get("/text", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "text for %s", r.Host) })
	router.Post("/json", func(w http.ResponseWriter, r *http.Request) {
		var sent map[string]any
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			http.Error(w, "no JSON", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(sent)
	})
	router.Get("/stream", func(w http.ResponseWriter, _ *http.Request) {
		for n := 1; n <= 3; n++ {
			fmt.Fprintf(w, "piece %d\n", n)
			w.(http.Flusher).Flush()
		}
	})
	router.Post("/upload", func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(formBytesMax); err != nil {
			http.Error(w, "no form", http.StatusBadRequest)
			return
		}
		opened, header, err := r.FormFile("file")
		if err != nil {
			http.Error(w, "no file", http.StatusBadRequest)
			return
		}
		defer opened.Close()
		fmt.Fprintf(w, "%s %s %s", r.FormValue("title"), header.Filename, sum(opened))
	})
	router.Get("/error", func(http.ResponseWriter, *http.Request) { panic("asked for") })
	router.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	return router
}

// recovered answers a panic with 500, and without chi's colours in the log.
func recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func sum(opened io.Reader) string {
	hash := sha256.New()
	count, err := io.Copy(hash, opened)
	return fmt.Sprintf("%d %x %v", count, hash.Sum(nil), err)
}
