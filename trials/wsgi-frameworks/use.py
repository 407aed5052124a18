"""Forms, uploads, files, sessions, streams, errors of four frameworks; and bodies of every length."""

from kit import expect, step

_DATA = bytes(range(256)) * 80_000
# What a file system says of a file.
_FILE = ("etag", "last-modified", "expires")


def _uploads(user, path):
    for length in (0, 1000, 70_000, len(_DATA)):
        file = ("ü.bin", _DATA[:length], "application/octet-stream")
        user.see(f"upload of {length}", user.post(path, form={"title": "Bücher"}, files={"file": file}))


def _raw(user, path, *methods):
    for method in methods:
        for length in (0, 1, 65_536, 65_537, 5_000_000):
            user.see(f"raw, {method} {length}", user.request(method, path, body=_DATA[:length]))
        user.see(f"raw, {method} without a word", user.request(method, path))
        user.see(f"raw, {method} of nothing", user.request(method, path, {"Content-Length": "0"}))


def _file(user, path):
    user.see(path, user.get(path), without=_FILE)
    for part in ("100-199", "-7", "99999999-"):
        user.see(f"{path} {part}", user.get(path, {"Range": f"bytes={part}"}), without=_FILE)
    user.see(f"{path} HEAD", user.request("HEAD", path), without=_FILE)
    changed = user.get(path).one("last-modified")
    if changed:
        user.see(f"{path} unchanged", user.get(path, {"If-Modified-Since": changed}), without=_FILE)


@step
def bottle(user):
    """Bottle: forms, 20 MB up, bodies of every length, files with ranges, cookies, errors; a stream across a reload, a reader who leaves"""
    user.mask(r'signed="[^;]+', "signed=(secret)")
    _uploads(user, "/bottle/upload")
    _raw(user, "/bottle/raw", "POST", "PUT", "DELETE")
    _file(user, "/bottle/file")
    for path in ("seen?a=1&%C3%BC=%20", "broken", "redirect", "closed", "nothing", "seen/"):
        user.see(path, user.get(f"/bottle/{path}"))
    user.see("closed, with the word", user.get("/bottle/closed", {"Authorization": "Basic YTpzZWNyZXQ="}))
    with user.start("GET", "/bottle/stream?name=stays") as stream:
        lines = stream.lines()
        user.note("one", next(lines))
        user.reload()
        user.get("/bottle/tell?name=stays")
        user.note("two", list(lines)[-1])
    with user.start("GET", "/bottle/stream?name=leaves") as stream:
        next(stream.lines())
    user.until("the stream to end", lambda: "leaves" in user.get("/bottle/tell?name=other").json()["gone"])


@step
def falcon(user):
    """Falcon: the same, multipart as it comes, files that Maitred sends"""
    _uploads(user, "/falcon/thing")
    _raw(user, "/falcon/thing", "PUT", "PATCH")
    _file(user, "/falcon/static/app.py")
    for path in ("thing?a=1", "stream", "stream?pieces=1", "nothing"):
        for method in ("GET", "HEAD", "OPTIONS", "DELETE"):
            user.see(f"{method} {path}", user.request(method, f"/falcon/{path}"))


@step
def pyramid(user):
    """Pyramid: the same, sessions"""
    user.mask(r"session=[^;]+", "session=(signed)")
    _uploads(user, "/pyramid/upload")
    _raw(user, "/pyramid/raw", "PUT", "POST")
    _file(user, "/pyramid/file")
    _file(user, "/pyramid/static/app.py")
    for number in (1, 2):
        user.see(f"seen {number}", user.get("/pyramid/seen"))
    user.see("pieces", user.get("/pyramid/pieces"))
    user.see("nothing", user.get("/pyramid/nothing"))


@step
def cherrypy(user):
    """CherryPy: the same, 411 where no length is said"""
    user.mask(r"session_id=\w+", "session_id=(id)")
    _uploads(user, "/cherrypy/upload")
    _raw(user, "/cherrypy/raw", "PUT", "POST")
    _file(user, "/cherrypy/file")
    for path in ("", "lines", "count", "count", "redirect"):
        user.see(f"/{path}", user.get(f"/cherrypy/{path}"))
    # The time in gzip's header (RFC 1952) is another each second.
    user.see("gzip", user.get("/cherrypy/lines", {"Accept-Encoding": "gzip"}), body=False)
    expect(user.get("/cherrypy/nothing").status == 404, "404")


@step
def plain(user):
    """WSGI as PEP 3333 has it: write(), file_wrapper, exc_info, readline, empty pieces"""
    for page in ("write", "part", "no-file", "changed", "empty-pieces", "nothing"):
        for method in ("GET", "HEAD"):
            user.see(f"{method} {page}", user.request(method, f"/plain/{page}"))
    text = b"one\ntwo and more\nthree\nfour"
    for times in (1, 20_000):
        user.see(f"input, {times} times", user.post("/plain/input", body=text * times))
    user.see("expect", user.post("/plain/input", {"Expect": "100-continue"}, body=text))
