"""httpbin says what it was asked, and answers in every way that HTTP has."""

import hashlib
import json

from kit import expect, step


def _told(user, name, response):
    """What httpbin has understood of a request: the fields that servers add are not the user's."""
    user.see(name, response, body=False, without=("content-length",))
    said = response.json()
    kept = {"args", "data", "form", "files", "json", "url", "method", "authenticated", "user", "cookies"}
    user.note(f"{name}: what it understood", json.dumps({key: said[key] for key in sorted(kept & set(said))}))
    return said


@step
def methods(user):
    """methods, queries, JSON, forms and uploads"""
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        _told(user, method, user.request(method, "/anything/a%20b?x=1&x=2&y=%C3%A9"))
    _told(user, "form", user.post("/post", form={"name": "Émile & Co", "empty": ""}))
    _told(user, "json", user.post("/post", json={"a": [1, 2.5, None, "ü"]}))
    _told(user, "file", user.post("/post", form={"k": "v"}, files={"f": ("a b.txt", b"line\r\n" * 1000, "text/plain")}))
    _told(user, "pieces", user.post("/post", {"Content-Type": "text/plain"}, body=iter([b"one ", b"two ", b"three"])))
    user.see("HEAD", user.request("HEAD", "/get"), without=("content-length",))
    user.see("OPTIONS", user.request("OPTIONS", "/get"))


@step
def large_bodies(user):
    """10 MB up"""
    data = bytes(range(256)) * 40_000
    said = user.post("/post", {"Content-Type": "application/octet-stream"}, body=data).json()
    user.note("hash of what came", hashlib.sha256(said["data"].encode()).hexdigest())
    expect(len(said["data"]) > len(data), "the application has not had all of it")


@step
def statuses(user):
    """every status, redirects, conditional requests, ranges"""
    for status in (200, 201, 202, 204, 301, 304, 400, 401, 403, 404, 405, 406, 409, 410, 418, 429, 500, 502, 503):
        user.see(f"status {status}", user.get(f"/status/{status}"))
    user.see("redirects", user.get("/redirect/3"))
    user.see("redirects, all of them", user.get("/redirect/3", follow=True), body=False, without=("content-length",))
    user.see("absolute redirect", user.get("/absolute-redirect/1"), without=("content-length",))
    user.see("not modified", user.get("/etag/abc", {"If-None-Match": '"abc"'}))
    user.see("range", user.get("/range/1000", {"Range": "bytes=10-99"}))
    user.see("no such range", user.get("/range/1000", {"Range": "bytes=2000-"}))


@step
def encodings(user):
    """gzip, brotli, deflate, UTF-8, images"""
    for path in ("/gzip", "/brotli", "/deflate"):
        # What is inside repeats the request's fields, and is of another length.
        user.see(path, user.get(path), body=False, without=("content-length",))
    for path in ("/encoding/utf8", "/html", "/xml", "/robots.txt", "/image/png", "/image/svg", "/json"):
        user.see(path, user.get(path))


@step
def fields(user):
    """cookies, authentication, fields of one hop"""
    # httpbin says it where it sees that it is https.
    user.mask("; Secure", "")
    user.see("cookie is set", user.get("/cookies/set/a/1"))
    user.see("cookie comes back", user.get("/cookies"))
    user.see("no password", user.get("/basic-auth/u/p"))
    user.see("password", user.get("/basic-auth/u/p", user=("u", "p")))
    user.see("bearer", user.get("/bearer", {"Authorization": "Bearer t0k"}))
    user.see("a field", user.get("/response-headers?X-Test=one&X-Test=two&X-Other=caf%C3%A9"))
    for field in ("Connection=close", "Connection=keep-alive", "Keep-Alive=timeout%3D5", "Proxy-Connection=close", "Upgrade=h2c"):
        user.see(field, user.get(f"/response-headers?{field}"), without=("connection", "keep-alive", "proxy-connection", "upgrade"))
    response = user.get("/response-headers?X-Sendfile=/etc/passwd")
    expect(b"root:" not in response.body, "a field of a response gives away a file")
    user.see("X-Sendfile without a root", response)


@step
def streams(user):
    """streams of JSON lines and bytes, drips, and a reload in the middle of one"""
    with user.start("GET", "/stream/5") as stream:
        lines = [json.loads(line)["id"] for line in stream.lines() if line]
    user.note("lines", lines)
    user.see("bytes", user.get("/stream-bytes/100000?seed=1&chunk_size=1000"))
    with user.start("GET", "/drip?duration=1&numbytes=5&delay=0") as stream:
        stream.head()
        first = stream.read()
        user.reload()
        rest = stream.whole()
    user.note("drips", (first + rest.body, rest.end, rest.status))
    user.note("after the reload", user.get("/get?after=1").json()["args"])


@step
def at_once(user):
    """eight slow requests at once, across a reload"""
    asked = [user.start("GET", "/delay/1").sent() for _ in range(8)]
    user.reload()
    user.note("statuses", [exchange.whole().status for exchange in asked])
