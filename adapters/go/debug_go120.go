//go:build !go1.21

package maitred

import "log"

// debug writes what is only of use for finding a fault: package log has no levels, so MAITRED_DEBUG asks for it.
func debug(text string, attributes ...any) {
	if debugs {
		log.Print(debugLine(text, attributes...))
	}
}
