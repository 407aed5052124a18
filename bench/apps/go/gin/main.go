// Gin: /hello is a text, /json an object of 10 KB.
package main

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"bench/apps"
)

type item struct {
	ID      int      `json:"id"`
	Name    string   `json:"name"`
	Price   float64  `json:"price"`
	Tags    []string `json:"tags"`
	InStock bool     `json:"in_stock"`
}

func main() {
	// As Gin's documentation has it for production; gin.Default() would log each request.
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.Use(gin.Recovery())
	// 107 items are 10 KB of JSON, the same as those of python/fastapi_app.py.
	items := make([]item, 107)
	for n := range items {
		number := 1000 + n
		name := fmt.Sprintf("Item %d of the list", number)
		items[n] = item{number, name, float64(n) * 1.25, []string{"red", "small"}, n%2 == 0}
	}
	router.GET("/hello", func(c *gin.Context) { c.String(http.StatusOK, "Hello from Gin\n") })
	router.GET("/json", func(c *gin.Context) { c.JSON(http.StatusOK, items) })
	apps.Serve(router)
}
