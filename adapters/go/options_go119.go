//go:build !go1.20

package maitred

import "net/http"

func disablesGeneralOptions(*http.Server) bool { return false }
