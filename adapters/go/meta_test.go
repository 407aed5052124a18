package maitred

import (
	"net/url"
	"reflect"
	"testing"
)

func TestMetaIsReadOnceForAConnection(t *testing.T) {
	const lines = "remote=192.0.2.7:1\nlocal=127.0.0.1:80\nscheme=http\nuser=a=b c\nauth_type=Basic\n"
	first := metaOf([]byte(lines+"queue_us=1\n"), nil)
	wanted := metaLines{text: lines, remote: "192.0.2.7:1", local: "127.0.0.1:80", scheme: "http", user: "a=b c", authType: "Basic"}
	if *first != wanted {
		t.Errorf("%+v", *first)
	}
	for _, same := range []string{"queue_us=1\n", "queue_us=234567\n", ""} {
		if metaOf([]byte(lines+same), first) != first {
			t.Errorf("%q is read again", same)
		}
	}
	for _, c := range []struct{ lines, user, mount string }{
		{"remote=192.0.2.7:1\nlocal=127.0.0.1:80\nscheme=http\nqueue_us=1\n", "", ""},
		{lines + "mount=/app\nqueue_us=1\n", "a=b c", "/app"},
		{lines + "queue_us=1\nmount=/app\n", "a=b c", "/app"},
		{"remote=192.0.2.7:1\nlocal=127.0.0.1:80\nscheme=http\nuser=other\nauth_type=Basic\n", "other", ""},
		{"", "", ""},
	} {
		found := metaOf([]byte(c.lines), first)
		if found == first || found.user != c.user || found.mount != c.mount {
			t.Errorf("%q: %+v", c.lines, *found)
		}
	}
	if found := metaOf([]byte("user=first\nuser=second\nunknown=x\nno line"), nil); found.user != "first" {
		t.Errorf("%+v", *found)
	}
}

// Every byte, in the path and in the query, means what it means to net/http.
func TestPlainAddressesAreThoseOfPackageURL(t *testing.T) {
	targets := []string{
		"/?", "/a?", "/a?b?c", "/a?b=c&d=%zz", "/a#b", "/a?b#c", "//a/b", "/./../a", "a", "*", "?", "/%zz", "http://h/a?b", "/:a", "/a?é",
	}
	for c := 0; c < 256; c++ {
		targets = append(targets, "/a"+string([]byte{byte(c)})+"b", "/a?b"+string([]byte{byte(c)})+"c", "/"+string([]byte{byte(c)}))
	}
	for _, target := range targets {
		wanted, wantedErr := url.ParseRequestURI(target)
		found, err := (&exchange{}).address(target)
		if (err == nil) != (wantedErr == nil) || err == nil && !reflect.DeepEqual(found, wanted) {
			t.Errorf("%q: %#v, %v; wanted %#v, %v", target, found, err, wanted, wantedErr)
		}
	}
	x := &exchange{}
	if found, _ := x.address("/a/b.html?c=d"); found != &x.url {
		t.Error("a plain target is not read the short way")
	}
}

func TestFieldsThatMaitredDoesNotWriteAreRefused(t *testing.T) {
	for _, text := range []string{"", "\r\n", "a: 1\r\n\r\n", "a:\r\n\r\n", "a: \r\n\r\n"} {
		if _, _, err := new(exchange).fields(text); (err == nil) != (text != "") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"a: 1\n\n", "a: 1\r\n", "a: 1", "a:1\r\n\r\n", "a\r\n\r\n", "a: 1\r\n\n", "a: b\nc: d\r\n\r\n"} {
		if fields, _, err := new(exchange).fields(text); err != errHead {
			t.Errorf("%q: %v, %v", text, fields, err)
		}
	}
}
