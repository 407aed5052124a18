package maitred

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func (k *connection) readHead(t *testing.T, head string) (*exchange, *http.Request) {
	t.Helper()
	var room []byte
	x := &exchange{connection: k, meta: &metaLines{}}
	x.head, x.known = k.headOf([]byte(head), &room)
	// What the channel's buffer holds afterwards is another request.
	for i := range room {
		room[i] = '#'
	}
	r, err := x.newRequest(noContext)
	if err != nil {
		t.Fatalf("%q: %v", head, err)
	}
	if whole := (frontExchange{x}).Head(); whole != head {
		t.Errorf("the head was %q, and is %q", head, whole)
	}
	return x, r
}

// Requests whose fields are those of the one before are what they are without it, whatever a handler did with that.
func TestKnownFieldsAreThoseOfTheHead(t *testing.T) {
	const own = "x-request-id: %d\r\nx-request-start: t=%d.5\r\n\r\n"
	heads := []string{
		"GET /%d HTTP/1.1\r\nhost: a\r\naccept: */*\r\ncookie: a=1\r\ncookie: b=2\r\npragma: no-cache\r\n" + own,
		"POST /%d HTTP/1.1\r\nhost: a\r\naccept: */*\r\ncookie: a=1\r\ncookie: b=2\r\npragma: no-cache\r\n" + own,
		"GET /%d HTTP/1.1\r\nhost: b\r\naccept: */*\r\ncookie: a=1\r\ncookie: b=2\r\npragma: no-cache\r\n" + own,
		"GET /%d HTTP/1.1\r\nhost: b\r\naccept: */*\r\n" + own,
		"GET /%d HTTP/1.1\r\nhost: b\r\naccept: */*\r\nx-more: 1\r\n" + own,
		"GET /%d HTTP/1.1\r\nhost: b\r\n" + own,
		"GET /%d HTTP/1.1\r\n" + own,
		"GET /%d HTTP/1.1\r\nhost: b\r\naccept: */*\r\nx-no-id: %d\r\nx-either: %d\r\n\r\n",
	}
	k := &connection{}
	for i := 0; i < 200; i++ {
		// Up to four times in a row, in all orders.
		head := fmt.Sprintf(heads[(i/4+i*i/7)%len(heads)], i, i, i)
		_, found := k.readHead(t, head)
		_, wanted := new(connection).readHead(t, head)
		if found.Method != wanted.Method || found.Host != wanted.Host || !reflect.DeepEqual(found.Header, wanted.Header) ||
			found.RequestURI != wanted.RequestURI {
			t.Fatalf("request %d, %q: found %q, wanted %q", i, head, found.Header, wanted.Header)
		}
		for name, values := range found.Header {
			values[0] = "changed by the handler"
			found.Header[name] = append(values, "added by the handler")
		}
		found.Header.Set("X-Handler", "1")
	}
}

func TestLikeHeadsAreReadOnce(t *testing.T) {
	const head = "GET /%d HTTP/1.1\r\nhost: a\r\naccept: */*\r\nx-request-id: %d\r\n\r\n"
	k := &connection{}
	for i, known := range []bool{false, true, true} {
		x, _ := k.readHead(t, fmt.Sprintf(head, i, i))
		if (x.known != nil) != known || known && x.known.read != (i > 1) {
			t.Errorf("request %d: %+v", i, x.known)
		}
	}
	// Of a connection whose requests all differ, not each is kept.
	kept := 0
	for i := 0; i < 2*unlikeAgain; i++ {
		before := k.known.Load()
		k.readHead(t, fmt.Sprintf("GET / HTTP/1.1\r\nhost: a\r\nx-number: %d\r\nx-request-id: 1\r\n\r\n", i))
		if k.known.Load() != before {
			kept++
		}
	}
	if kept != unlikeMax+2 {
		t.Errorf("%d heads were kept", kept)
	}
	long := "GET / HTTP/1.1\r\nhost: a\r\nx-long: " + strings.Repeat("x", knownBytesMax) + "\r\nx-request-id: 1\r\n\r\n"
	k = &connection{}
	for i := 0; i < 3; i++ {
		if k.readHead(t, long); k.known.Load() != nil {
			t.Error("a head is kept that is too long for that")
		}
	}
}

func TestFieldsOfAResponseAreSorted(t *testing.T) {
	for _, count := range []int{0, 1, 2, 15, 16, 17, 100} {
		fields := http.Header{}
		for i := 0; i < count; i++ {
			fields.Set(fmt.Sprintf("X-%d", i*7919%1000), fmt.Sprint(i))
		}
		var room [16]field
		found := sortedFields(fields, room[:0])
		if len(found) != count {
			t.Errorf("%d of %d fields", len(found), count)
		}
		for i := range found {
			if i > 0 && found[i-1].name >= found[i].name || found[i].values[0] != fields.Get(found[i].name) {
				t.Errorf("%d fields: %v", count, found)
			}
		}
	}
}
