//go:build go1.21

package maitred

import "log/slog"

// debug says what only somebody who looks for a fault wants to know: by the default logger of the program, at its level debug.
func debug(text string, attributes ...any) { slog.Debug(text, attributes...) }
