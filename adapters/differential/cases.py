"""What is asked of the application, both ways. Each case returns what is compared; what must hold both ways it checks itself.

A case is a function of the server's address. CASES maps names to (function, feature or None).
"""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor

from client import Connection, expect, observed

MEGABYTE = 1024 * 1024
CASES = {}


def case(name, feature=None):
    """Registers a case; one with a feature only runs for applications that have it."""

    def register(function):
        CASES[name] = (function, feature)
        return function

    return register


def request(method, target, fields=(), body=None, version="1.1"):
    """The bytes of a request; `body` sets Content-Length."""
    lines = [f"{method} {target} HTTP/{version}", "Host: example.test"]
    lines += [f"{name}: {value}" for name, value in fields]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def chunked(body, chunk_bytes):
    """A body in chunks."""
    pieces = [body[at : at + chunk_bytes] for at in range(0, len(body), chunk_bytes)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def ask(address, method, target, fields=(), body=None, version="1.1", status=200):
    """One request on a connection of its own; its response, whose status must be `status` (None: any)."""
    with Connection(address) as connection:
        connection.send(request(method, target, fields, body, version))
        response = connection.response(method)
    expect(status in (None, response.status), f"{method} {target} is answered {response.status}: {response.body[:300]!r}")
    return response


def pattern(count):
    """What /bytes and /stream answer: 0, 1, ... 250, 0, ..."""
    return bytes(range(251)) * (count // 251) + bytes(range(count % 251))


def _echoed(response, method, body):
    """Checks what /echo says of a request, so that two servers that are wrong in the same way do not pass."""
    said = json.loads(response.body)
    expect(said["method"] == method, f"the method is {said['method']}")
    expect(said["length"] == len(body), f"the application read {said['length']} bytes of {len(body)}")
    expect(said["sha256"] == hashlib.sha256(body).hexdigest(), "the application read another body")
    return said


def _methods():
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):

        def run(address, method=method):
            body = None if method in ("GET", "DELETE", "OPTIONS") else b"name=value"
            fields = [("Content-Type", "application/x-www-form-urlencoded")] if body else []
            response = ask(address, method, "/echo", fields, body)
            _echoed(response, method, body or b"")
            return [observed(response)]

        case(f"method {method}")(run)


_methods()


@case("HEAD of a known length")
def _head_known(address):
    return [observed(ask(address, "HEAD", "/bytes?n=1000"))]


@case("HEAD of a stream")
def _head_stream(address):
    return [observed(ask(address, "HEAD", "/stream?n=1000&pieces=10"))]


@case("HEAD, then GET on the same connection")
def _head_get(address):
    with Connection(address) as connection:
        connection.send(request("HEAD", "/bytes?n=1000"))
        first = connection.response("HEAD")
        connection.send(request("GET", "/bytes?n=10"))
        return [observed(first), observed(connection.response())]


def _bodies():
    for name, count in (("of 0 bytes", 0), ("of 1 byte", 1), ("of 100 KB", 100_000), ("of 10 MB", 10 * MEGABYTE)):

        def whole(address, count=count):
            response = ask(address, "POST", "/echo", body=pattern(count))
            _echoed(response, "POST", pattern(count))
            return [observed(response)]

        def pieces(address, count=count):
            with Connection(address) as connection:
                connection.send(request("POST", "/echo", [("Transfer-Encoding", "chunked")]))
                connection.send(chunked(pattern(count), 60_000))
                response = connection.response()
            _echoed(response, "POST", pattern(count))
            return [observed(response)]

        case(f"body {name}")(whole)
        case(f"body {name}, in chunks")(pieces)


_bodies()


@case("body that waits for 100 Continue")
def _continue(address):
    with Connection(address) as connection:
        connection.send(request("POST", "/echo", [("Expect", "100-continue"), ("Content-Length", "5")]))
        interim = connection.exactly(len(b"HTTP/1.1 100"))
        expect(interim == b"HTTP/1.1 100", f"in place of 100: {interim!r}")
        while connection.exactly(1) != b"\n":
            pass
        expect(connection.exactly(2) == b"\r\n", "100 with fields")
        connection.send(b"12345")
        response = connection.response()
    _echoed(response, "POST", b"12345")
    return [observed(response)]


@case("body that the application does not read")
def _unread(address):
    return [observed(ask(address, "POST", "/bytes?n=10", body=pattern(100_000)))]


def _targets():
    targets = {
        "unicode path": "/echo/%E2%82%AC%20%C3%A4/x",
        "slash that is encoded": "/echo/a%2Fb",
        "bytes that are no UTF-8": "/echo/%FF%FE",
        "letters that need no encoding": "/echo/%41%7E",
        "path with signs": "/echo/a+b;c=d,e:@!$&'()*~",
        "two slashes": "/echo//a//b",
        "slash at the end": "/echo/a/",
        "percent": "/echo/100%25",
        "query": "/echo?a=1&a=2&b=%20+%2B&c",
        "empty query": "/echo?",
        "query with question marks and slashes": "/echo?next=/a?b=c",
        "unicode query": "/echo?q=%E2%82%AC",
        "long target": "/echo/" + "p" * 2000 + "?" + "q" * 1500,
    }
    for name, target in targets.items():

        def run(address, target=target):
            response = ask(address, "GET", target)
            _echoed(response, "GET", b"")
            return [observed(response)]

        case(name)(run)


_targets()


@case("dot segments that are encoded")
def _dots(address):
    return [observed(ask(address, "GET", "/echo/%2E%2E%2Fa", status=None))]


@case("request fields")
def _fields(address):
    fields = [
        ("X-Test-Plain", "a value"),
        ("X-Test-Empty", ""),
        ("X-Test-Latin", "caf\xe9"),
        ("x-test-LOWER", "Mixed, with; signs=\"quoted\""),
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Accept-Language", "de-CH, en;q=0.5"),
    ]
    return [observed(ask(address, "GET", "/headers", fields))]


@case("request fields that are repeated")
def _repeated(address):
    return [observed(ask(address, "GET", "/headers", [("X-Test-Many", "one"), ("X-Test-Many", "two")]))]


@case("request field of 6 KB")
def _long_field(address):
    return [observed(ask(address, "GET", "/headers", [("X-Test-Long", "x" * 6000)]))]


@case("response fields that are repeated")
def _response_fields(address):
    response = ask(address, "GET", "/repeat")
    expect(response.all("x-test") == ["one", "two"] or response.one("x-test") == "one, two", "X-Test is not there twice")
    return [observed(response)]


@case("response fields of one hop", "hop")
def _hop(address):
    found = []
    with Connection(address) as connection:
        for target in ("/hop", "/bytes?n=10"):
            connection.send(request("GET", target))
            found.append(connection.response())
    expect([response.status for response in found] == [200, 200], f"answered {found[0].status}, {found[1].status}")
    expect(found[0].body == b"hop", f"the body is {found[0].body!r}")
    return list(map(observed, found))


@case("cookies")
def _cookies(address):
    response = ask(address, "GET", "/cookies", [("Cookie", "a=1; b=two; c=%E2%82%AC")])
    expect(json.loads(response.body) == {"a": "1", "b": "two", "c": "%E2%82%AC"}, f"cookies: {response.body!r}")
    expect(len(response.all("set-cookie")) == 2, "there are not two Set-Cookie")
    return [observed(response)]


def _statuses():
    for status in (201, 204, 400, 404, 418, 500, 503):

        def run(address, status=status):
            with Connection(address) as connection:
                connection.send(request("GET", f"/status/{status}"))
                response = connection.response()
            expect(response.status == status, f"answered {response.status}")
            return [observed(response)]

        case(f"status {status}")(run)


_statuses()


@case("path that the application does not know")
def _missing(address):
    return [observed(ask(address, "GET", "/nowhere", status=404))]


@case("empty response")
def _empty(address):
    return [observed(ask(address, "GET", "/bytes?n=0"))]


@case("redirect")
def _redirect(address):
    response = ask(address, "GET", "/redirect", status=302)
    expect(response.one("location") == "/bytes?n=5", f"Location: {response.one('location')}")
    return [observed(response)]


@case("condition that holds: 304")
def _not_modified(address):
    return [observed(ask(address, "GET", "/etag", [("If-None-Match", '"v1"')], status=304))]


@case("condition that does not hold")
def _modified(address):
    return [observed(ask(address, "GET", "/etag", [("If-None-Match", '"v0"')]))]


@case("range", "range")
def _range(address):
    return [observed(ask(address, "GET", "/file", [("Range", "bytes=100-199")], status=206))]


@case("range that cannot be", "range")
def _no_range(address):
    return [observed(ask(address, "GET", "/file", [("Range", "bytes=99999999-")], status=416))]


@case("file", "range")
def _file(address):
    return [observed(ask(address, "GET", "/file"))]


@case("failure before the response")
def _error(address):
    return [observed(ask(address, "GET", "/error", status=500))]


@case("failure within the response")
def _error_late(address):
    response = ask(address, "GET", "/error-late")
    expect(response.end == "cut", f"the client takes the response for {response.end}")
    return [observed(response)]


@case("the server answers after failures")
def _after_errors(address):
    for _ in range(3):
        ask(address, "GET", "/error", status=500)
    return [observed(ask(address, "GET", "/bytes?n=10"))]


def _sizes():
    for name, count in (("1 KB", 1000), ("100 KB", 100_000), ("1 MB", MEGABYTE), ("10 MB", 10 * MEGABYTE)):

        def whole(address, count=count):
            response = ask(address, "GET", f"/bytes?n={count}")
            expect(response.body == pattern(count), "the body is another one")
            return [observed(response)]

        def stream(address, count=count):
            response = ask(address, "GET", f"/stream?n={count}&pieces=20")
            expect(response.body == pattern(count), "the body is another one")
            expect(response.end != "cut", "the stream is cut")
            return [observed(response)]

        case(f"response of {name}")(whole)
        case(f"stream of {name}")(stream)


_sizes()


@case("stream without a piece")
def _no_piece(address):
    return [observed(ask(address, "GET", "/stream?n=0&pieces=0"))]


@case("slow application")
def _slow(address):
    return [observed(ask(address, "GET", "/slow?ms=200"))]


def _slow_readers():
    for target in ("/bytes?n=5000000", "/stream?n=5000000&pieces=50"):

        def run(address, target=target):
            with Connection(address, receive_buffer_bytes=8192) as connection:
                connection.piece_bytes, connection.pause_s = 64 * 1024, 0.002
                connection.send(request("GET", target))
                response = connection.response()
            expect(response.body == pattern(5_000_000), "the body is another one")
            return [observed(response)]

        case(f"client that reads slowly: {target.partition('?')[0]}")(run)


_slow_readers()


def _aborts():
    aborts = {
        "in the middle of a response": (request("GET", "/bytes?n=10000000"), 10_000),
        "in the middle of a stream": (request("GET", "/stream?n=10000000&pieces=100"), 10_000),
        "before the response": (request("GET", "/slow?ms=100"), 0),
        "in the middle of a body": (request("POST", "/echo", body=pattern(100_000))[:50_000], 0),
        "in the middle of a head": (request("GET", "/bytes?n=10")[:20], 0),
    }
    for name, (data, read_bytes) in aborts.items():

        def run(address, data=data, read_bytes=read_bytes):
            for _ in range(3):
                with Connection(address) as connection:
                    connection.send(data)
                    connection.exactly(read_bytes)
            return [observed(ask(address, "GET", "/bytes?n=10"))]

        case(f"client that goes away {name}")(run)


_aborts()


@case("three requests on one connection")
def _keep_alive(address):
    found = []
    with Connection(address) as connection:
        for count in (10, 100_000, 0):
            connection.send(request("GET", f"/bytes?n={count}"))
            found.append(observed(connection.response()))
    return found


@case("pipelined requests")
def _pipelined(address):
    first = request("GET", "/bytes?n=10")
    second = request("POST", "/echo?second", body=b"12345")
    third = request("GET", "/stream?n=100000&pieces=10")
    with Connection(address) as connection:
        connection.send(first + second + third)
        responses = [connection.response() for _ in range(3)]
    expect(responses[0].body == pattern(10), "the first response is another one")
    _echoed(responses[1], "POST", b"12345")
    expect(responses[2].body == pattern(100_000), "the third response is another one")
    return list(map(observed, responses))


@case("requests at the same time")
def _at_once(address):
    def one(number):
        response = ask(address, "POST", f"/echo/{number}", body=b"%d" % number)
        _echoed(response, "POST", b"%d" % number)
        expect(json.loads(response.body)["path"] == f"/echo/{number}", "the answer to another request")
        return observed(response)

    with ThreadPoolExecutor(16) as threads:
        return list(threads.map(one, range(64)))


@case("Connection: close")
def _close(address):
    with Connection(address) as connection:
        connection.send(request("GET", "/bytes?n=10", [("Connection", "close")]))
        response = connection.response()
        expect(connection.at_end(), "the connection stays open")
    return [observed(response)]


@case("HTTP/1.0")
def _http10(address):
    with Connection(address) as connection:
        connection.send(request("GET", "/bytes?n=10", version="1.0"))
        response = connection.response()
        expect(connection.at_end(), "the connection stays open")
    return [observed(response)]


@case("HTTP/1.0, stream")
def _http10_stream(address):
    response = ask(address, "GET", "/stream?n=1000&pieces=10", version="1.0")
    expect(response.body == pattern(1000), "the body is another one")
    return [observed(response)]
