//go:build !go1.21

package maitred

import "log"

// debug says what only somebody who looks for a fault wants to know: package log has no levels, so MAITRED_DEBUG asks for it.
func debug(text string, attributes ...any) {
	if debugs {
		log.Print(debugLine(text, attributes...))
	}
}
