//go:build !go1.21

package maitred

// debug has nowhere to say it: package log has no levels.
func debug(string, ...any) {}
