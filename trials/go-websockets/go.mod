module trial

go 1.23.0

require (
	github.com/coder/websocket v1.8.15
	github.com/gorilla/websocket v1.5.3
	golang.org/x/net v0.42.0
	maitred v0.0.0
)

replace maitred => ../../adapters/go
