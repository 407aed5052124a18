"""Requests whose fields or content are malformed (9114-4.1.2, 4.2, 4.3)."""

from aioquic.h3.connection import ErrorCode, FrameType

from illegal import message_error
from raw import section


def send(client, fields, content=None, end=True):
    stream, _ = client.new_stream()
    client.send_frame(stream, FrameType.HEADERS, section(fields), end and content is None)
    if content is not None:
        client.send_frame(stream, FrameType.DATA, content, end)
    return stream


def with_fields(client, *fields, method="GET"):
    return send(client, client.head(method, "/a.txt") + list(fields))


def without(client, name):
    return send(client, [pair for pair in client.head("GET", "/a.txt") if pair[0] != name])


def changed(client, name, value):
    return send(client, [(found, value if found == name else old) for found, old in client.head("GET", "/a.txt")])


CASES = [
    ("9114-4.3", "a pseudo-header field twice", "pseudo_twice", lambda c: send(c, c.head("GET", "/a.txt") + [(b":method", b"GET")])),
    ("9114-4.3.1", "no :method", "no_method", lambda c: without(c, b":method")),
    ("9114-4.3.1", "no :scheme", "no_scheme", lambda c: without(c, b":scheme")),
    ("9114-4.3.1", "no :path", "no_path", lambda c: without(c, b":path")),
    ("9114-4.3.1", "neither :authority nor Host", "no_authority", lambda c: without(c, b":authority")),
    ("9114-4.3.1", "an empty :path", "empty_path", lambda c: changed(c, b":path", b"")),
    ("9114-4.3.1", "an empty :authority", "empty_authority", lambda c: changed(c, b":authority", b"")),
    ("9114-4.3.1", "Host and :authority differ", "host_differs", lambda c: with_fields(c, (b"host", b"other.example"))),
    ("9114-4.3", "an unknown pseudo-header field", "unknown_pseudo", lambda c: send(c, [(b":foo", b"bar"), *c.head("GET", "/a.txt")])),
    ("9114-4.3", "a pseudo-header field of responses", "status_in_request", lambda c: send(c, [(b":status", b"200"), *c.head("GET", "/a.txt")])),
    ("9114-4.3", "a pseudo-header field after a field", "pseudo_after_field", lambda c: send(c, [(b"x-a", b"b"), *c.head("GET", "/a.txt")])),
    ("9220, 8441", ":protocol without CONNECT", "protocol_of_get", lambda c: send(c, [(b":protocol", b"websocket"), *c.head("GET", "/a.txt")])),
    ("9114-4.4", "CONNECT with :path, without :protocol", "connect_with_path", lambda c: send(c, c.head("CONNECT", "/a.txt"))),
    ("9114-4.2", "an upper-case name", "upper_case", lambda c: with_fields(c, (b"X-Upper", b"a"))),
    ("9114-4.2", "Connection", "connection", lambda c: with_fields(c, (b"connection", b"close"))),
    ("9114-4.2", "Transfer-Encoding", "transfer_encoding", lambda c: with_fields(c, (b"transfer-encoding", b"chunked"))),
    ("9114-4.2", "Keep-Alive", "keep_alive", lambda c: with_fields(c, (b"keep-alive", b"timeout=5"))),
    ("9114-4.2", "Proxy-Connection", "proxy_connection", lambda c: with_fields(c, (b"proxy-connection", b"close"))),
    ("9114-4.2", "Upgrade", "upgrade", lambda c: with_fields(c, (b"upgrade", b"websocket"))),
    ("9114-4.2", "TE that is not trailers", "te_gzip", lambda c: with_fields(c, (b"te", b"gzip"))),
    ("9114-10.3", "a zero byte in a value", "zero_in_value", lambda c: with_fields(c, (b"x-a", b"a\0b"))),
    ("9114-10.3", "a line end in a value", "line_end_in_value", lambda c: with_fields(c, (b"x-a", b"a\r\nx-b: c"))),
    ("9114-10.3", "a space in a name", "space_in_name", lambda c: with_fields(c, (b"x a", b"b"))),
    ("9114-10.3", "an empty name", "empty_name", lambda c: with_fields(c, (b"", b"b"))),
    ("9114-10.3", "a colon in a name", "colon_in_name", lambda c: with_fields(c, (b"x:a", b"b"))),
    ("9114-4.3.1", "a space in :path", "space_in_path", lambda c: changed(c, b":path", b"/a .txt")),
    ("9114-4.3.1", "a space in :method", "space_in_method", lambda c: changed(c, b":method", b"GE T")),
]

for rule, what, name, act in CASES:
    act.__name__ = name
    message_error(rule, what)(act)


def upload(client, length, content, more=()):
    head = client.head("POST", "/app/upload", [("content-length", str(length)), *more])
    return send(client, head, content)


@message_error("9114-4.1.2", "less content than Content-Length")
def too_little_content(client):
    return upload(client, 10, b"12345")


@message_error("9114-4.1.2", "more content than Content-Length")
def too_much_content(client):
    return upload(client, 3, b"12345")


@message_error("9114-4.1.2", "a Content-Length that is no number")
def bad_content_length(client):
    return upload(client, "x", b"12345")


@message_error("9110-8.6", "two lengths that differ")
def two_content_lengths(client):
    return upload(client, 5, b"12345", [("content-length", "6")])


@message_error("9114-4.3", "a pseudo-header field in trailers")
def pseudo_in_trailers(client):
    stream = send(client, client.head("POST", "/app/upload"), b"12345", end=False)
    client.send_frame(stream, FrameType.HEADERS, section([(b":path", b"/")]), end=True)
    return stream


@message_error("9114-4.1", "a stream that ends without a request", ErrorCode.H3_REQUEST_INCOMPLETE)
def no_request(client):
    stream, _ = client.new_stream()
    client.send_raw(stream, b"", end=True)
    return stream
