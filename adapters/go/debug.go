//go:build go1.21

package maitred

import "log/slog"

// debug writes what is only of use for finding a fault: to the default logger of the program, at its level debug.
func debug(text string, attributes ...any) { slog.Debug(text, attributes...) }
