package maitred

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// batch is so many requests in one message, each on a connection of its own.
func (s *server) batch(targets ...string) {
	s.t.Helper()
	var frames []byte
	var far []int
	for _, target := range targets {
		if target == "" {
			target = "/"
		}
		near, other := pair(s.t)
		s.t.Cleanup(func() { closeAll([]int{near}) })
		s.number++
		frames = append(frames, ask{target: target, flags: flagKeep}.frame(s.number, s.number, 1)...)
		far = append(far, other)
	}
	s.send(frames, far...)
	closeAll(far)
}

// until waits until something holds that nobody tells of.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !holds(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func TestAHandlerThatWaitsHoldsNothingUp(t *testing.T) {
	const count = 200
	for _, threads := range []int{1, 4} {
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
			var all sync.WaitGroup
			all.Add(count)
			s := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				all.Done()
				all.Wait()
			}))
			s.batch(make([]string, count/2)...)
			s.batch(make([]string, count-count/2)...)
			for i := 0; i < count; i++ {
				if f := s.done(); f.flags != flagClean {
					t.Errorf("flags %d", f.flags)
				}
			}
			if err := s.end(); err != nil {
				t.Error(err)
			}
		}()
	}
}

func TestGoroutinesAreUsedAgain(t *testing.T) {
	seen := sync.Map{}
	s := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		stack := make([]byte, 100)
		name, _, _ := strings.Cut(string(stack[:runtime.Stack(stack, false)]), "[")
		seen.Store(name, true)
	}))
	for i := 0; i < 100; i++ {
		s.exchange(ask{target: "/", flags: flagKeep})
	}
	count := 0
	seen.Range(func(any, any) bool { count++; return true })
	if count > 10 {
		t.Errorf("100 requests ran in %d goroutines", count)
	}
}

func TestGoroutinesThatAreNotUsedEnd(t *testing.T) {
	const count = 4 * idleMax
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	all.Add(count)
	s := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		all.Done()
		all.Wait()
	}))
	s.batch(make([]string, count/2)...)
	s.batch(make([]string, count/2)...)
	for i := 0; i < count; i++ {
		s.done()
	}
	// The channel has some of its own.
	until(t, "goroutines are kept", func() bool { return runtime.NumGoroutine() <= before+idleMax+10 })
	if err := s.end(); err != nil {
		t.Error(err)
	}
	until(t, "goroutines outlive the channel", func() bool { return runtime.NumGoroutine() <= before+10 })
}

func TestAHandlerThatEndsItsGoroutineHoldsNothingUp(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/exit" {
			runtime.Goexit()
		}
	}))
	s.batch("/exit", "/", "/exit", "/exit", "/", "/exit")
	for i := 0; i < 6; i++ {
		s.done()
	}
}

// A queue that is never empty does not grow.
func TestPlacesInTheQueueAreUsedAgain(t *testing.T) {
	c := &crew{waking: true}
	h := &hand{crew: c}
	c.add(&exchange{})
	for i := uint32(0); i < 100*queueTaken; i++ {
		c.add(&exchange{id: i + 1})
		if x := h.take(); x.id != i {
			t.Fatalf("request %d instead of %d", x.id, i)
		}
	}
	if cap(c.queue) > 8*queueTaken {
		t.Errorf("room for %d requests, of which %d wait", cap(c.queue), len(c.queue)-c.first)
	}
}

// With one thread, a request that computes keeps the reports before it from leaving. Time in which it waits, or the kernel
// runs other processes, does not count: no reports would leave together on a machine with other work.
func TestWhatDelaysReportsIsTimeOnTheCPU(t *testing.T) {
	const long = time.Hour
	now := time.Now()
	for _, c := range []struct {
		turn   turn
		took   time.Duration
		delays bool
	}{
		{turn{began: now.Add(-long), cpu: processTime() - long, alone: true}, long, true},
		{turn{began: now.Add(-long), cpu: processTime() - long, alone: true}, slowRequest / 2, false},
		{turn{began: now.Add(-long), cpu: processTime() - long, alone: false}, long, false},
		{turn{began: now.Add(-long), cpu: processTime(), alone: true}, long, false},
	} {
		if found := c.turn.delays(c.took, now); found != c.delays {
			t.Errorf("%+v, %v: %t", c.turn, c.took, found)
		}
	}
	if processTime() <= 0 {
		t.Error("the kernel does not say how long this process has run")
	}
}

// reportsTo is one end of a channel, and the other, which is not blocking.
func reportsTo(t *testing.T) (*reports, int) {
	t.Helper()
	ours, theirs := pair(t)
	file := os.NewFile(uintptr(theirs), "")
	t.Cleanup(func() {
		file.Close()
		syscall.Close(ours)
	})
	if err := syscall.SetNonblock(ours, true); err != nil {
		t.Fatal(err)
	}
	raw, err := file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return newReports(raw), ours
}

// A request that waits for long may be the last of the queue: nobody would send the reports before it, unless one is to come.
func TestReportsDoNotWaitForTheLastRequest(t *testing.T) {
	for _, waking := range []bool{false, true} {
		r, ours := reportsTo(t)
		c := &crew{reports: r, waking: waking}
		c.add(&exchange{})
		r.done(1, 1, done{}, time.Now(), false)
		(&hand{crew: c}).take()
		if n, _ := syscall.Read(ours, make([]byte, 1000)); (n > 0) == waking {
			t.Errorf("somebody else is to come: %t; %d bytes leave", waking, n)
		}
	}
}

func TestAReportLeavesBeforeItIsTooOld(t *testing.T) {
	r, ours := reportsTo(t)
	now := time.Now()
	for i, c := range []struct {
		after  time.Duration
		delays bool
		leave  int
	}{
		{0, false, 0}, {reportWait / 2, false, 0}, {reportWait + 1, false, 3},
		{2 * reportWait, false, 0}, {2 * reportWait, true, 2}, {2 * reportWait, false, 1},
	} {
		r.done(1, uint32(i), done{}, now.Add(c.after), c.delays)
		n, _ := syscall.Read(ours, make([]byte, 1000))
		if wanted := c.leave * (headerBytes + 16); n != wanted && !(wanted == 0 && n < 0) {
			t.Errorf("%d: %d bytes leave, wanted %d", i, n, wanted)
		}
	}
}

// What a handler keeps of its request and its response stays as it was, whatever comes after it.
func TestWhatAHandlerKeepsIsItsOwn(t *testing.T) {
	type seen struct {
		request  *http.Request
		response http.Header
		body     io.Reader
	}
	kept := make(chan seen, 100)
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Target", r.RequestURI)
		io.WriteString(w, r.RequestURI)
		kept <- seen{r, w.Header(), r.Body}
	}))
	near, far := pair(t)
	defer closeAll([]int{near, far})
	describe := func(v seen) string {
		r := v.request
		return fmt.Sprint(r.Method, r.RequestURI, r.URL, r.URL.RawQuery, r.Header, r.Host, r.RemoteAddr, userText(r), v.response)
	}
	var before []string
	var all []seen
	for i := uint32(0); i < 20; i++ {
		a := ask{
			method: "POST", target: fmt.Sprintf("/page/%d?q=%d", i, i), flags: flagKeep, body: fmt.Sprint("body ", i),
			fields: []string{
				fmt.Sprint("x-number: ", i%3), "accept: */*",
				fmt.Sprint("content-length: ", len(fmt.Sprint("body ", i))), fmt.Sprint("x-request-id: ", i),
			},
			meta: fmt.Sprintf("remote=192.0.2.%d:1\nlocal=[::1]:80\nscheme=http\nuser=u%d\nauth_type=Basic\nqueue_us=%d\n", i%4, i%4, i),
		}
		if i == 0 {
			s.send(a.frame(1, i, 1), far)
		} else {
			s.send(a.frame(1, i, 0))
		}
		s.done()
		v := <-kept
		v.request.Header.Add("X-Number", "added by the handler")
		v.request.Header["Accept"][0] = "changed by the handler"
		all, before = append(all, v), append(before, describe(v))
	}
	for i, v := range all {
		if found := describe(v); found != before[i] || !strings.Contains(found, fmt.Sprintf("/page/%d?q=%d", i, i)) {
			t.Errorf("request %d has become %s; it was %s", i, found, before[i])
		}
		if number := v.request.Header["X-Number"]; number[0] != fmt.Sprint(i%3) || len(number) != 2 {
			t.Errorf("request %d: %q", i, number)
		}
		if data, _ := io.ReadAll(v.body); string(data) != fmt.Sprint("body ", i) {
			t.Errorf("request %d: the body %q", i, data)
		}
	}
}

// userText is what User returns, as a text.
func userText(r *http.Request) string {
	name, scheme, ok := User(r)
	return fmt.Sprint(name, scheme, ok)
}
