//go:build go1.20

package maitred

import "net/http"

func disablesGeneralOptions(server *http.Server) bool { return server.DisableGeneralOptionsHandler }
