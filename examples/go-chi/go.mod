module example/go-chi

go 1.19

require (
	github.com/go-chi/chi/v5 v5.1.0
	maitred v0.0.0
)

replace maitred => ../../adapters/go
