package main

import (
	"encoding/json"
	"net/http"
)

// latin1 makes each byte one character, as the kit wants it.
func latin1(text string) string {
	characters := make([]rune, len(text))
	for i := 0; i < len(text); i++ {
		characters[i] = rune(text[i])
	}
	return string(characters)
}

func writeJSON(w http.ResponseWriter, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
}
