package maitred

import (
	"bufio"
	"fmt"
	"log"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"maitred/maitredtest"
)

// silent writes nothing until its request is cancelled.
func silent(_ http.ResponseWriter, r *http.Request) {
	<-r.Context().Done()
	log.Printf("silent: %v", r.Context().Err())
}

// A request that is silent for too long ends alone: its context is cancelled, and others of the process do not notice.
func TestASilentRequestEndsAlone(t *testing.T) {
	for _, transport := range []string{"direct", "relay"} {
		t.Run(transport, func(t *testing.T) {
			pool := fmt.Sprintf("transport = %q\nrequest_timeout = \"2s\"", transport)
			text := strings.Replace(fmt.Sprintf(configurationOf, os.Args[0], pool), "workers = 2", "workers = 1", 1)
			m := &maitred{maitredtest.Start(t, text), t}
			_, before, err := m.get(m.client(), "/pids")
			if err != nil {
				t.Fatal(err)
			}
			stream, err := m.client().Get(m.URL("/stream"))
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Body.Close()
			// The client takes what comes.
			read, ended := make(chan int, 1<<16), make(chan error, 1)
			go func() {
				lines := bufio.NewScanner(stream.Body)
				for i := 0; lines.Scan() && lines.Text() == fmt.Sprint(i); i++ {
					select {
					case read <- i:
					default:
					}
				}
				ended <- lines.Err()
			}()
			if status, body, err := m.get(m.client(), "/silent"); status != 504 || err != nil {
				t.Errorf("status %d, %q, %v", status, body, err)
			}
			m.Says(regexp.MustCompile("silent: context canceled"))
			// The stream goes on, by more lines than were under way when the other request ended.
			for more := 0; more < 2*cap(read); more++ {
				select {
				case <-read:
				case err := <-ended:
					said, _ := m.Stop()
					t.Fatalf("the stream has ended: %v\n%s", err, said)
				}
			}
			if _, after, err := m.get(m.client(), "/pids"); after != before || err != nil {
				t.Errorf("the process was %s, and is %s, %v", before, after, err)
			}
		})
	}
}
