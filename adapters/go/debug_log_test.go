package maitred

import "testing"

func TestDebugLineNamesWhatItIsAbout(t *testing.T) {
	line := debugLine("maitred: a field of one hop is not sent", "field", "Keep-Alive")
	if line != "DEBUG maitred: a field of one hop is not sent field=Keep-Alive" {
		t.Errorf("%q", line)
	}
	if line := debugLine("text", "odd"); line != "DEBUG text" {
		t.Errorf("%q", line)
	}
}
