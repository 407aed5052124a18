package maitred

import (
	"fmt"
	"os"
	"strings"
)

// debugs says whether debug messages are written; before Go 1.21 the standard library has no levels.
var debugs = os.Getenv("MAITRED_DEBUG") != ""

// debugLine is such a message as package slog writes it: what follows the text are names and values by turns.
func debugLine(text string, attributes ...any) string {
	var line strings.Builder
	line.WriteString("DEBUG " + text)
	for i := 0; i+1 < len(attributes); i += 2 {
		fmt.Fprintf(&line, " %v=%v", attributes[i], attributes[i+1])
	}
	return line.String()
}
