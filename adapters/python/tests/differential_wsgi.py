"""The application of the differential test (adapters/differential/README.md), as WSGI."""

import hashlib
import json
import time
from http import HTTPStatus
from urllib.parse import parse_qs


def pattern(count):
    """0, 1, ... 250, 0, ..."""
    return bytes(range(251)) * (count // 251) + bytes(range(count % 251))


def pieces(count, number):
    """The same as a list of `number` pieces."""
    data, size = pattern(count), -(-count // number) if number else 1
    return [data[at : at + size] for at in range(0, count, size)]


def application(environ, start_response):
    """Chooses by the first part of the path."""
    name = environ["PATH_INFO"].split("/")[1]
    query = {key: values[0] for key, values in parse_qs(environ["QUERY_STRING"]).items()}
    return HANDLERS.get(name, _missing)(environ, start_response, query)


def _answer(start_response, body, fields=(), status=200, kind="text/plain"):
    length = [] if status in (204, 304) else [("Content-Type", kind), ("Content-Length", str(len(body)))]
    start_response(f"{status} {HTTPStatus(status).phrase}", [*length, *fields])
    return [] if status in (204, 304) else [body]


def _json(start_response, value, fields=()):
    return _answer(start_response, json.dumps(value, sort_keys=True).encode(), fields, kind="application/json")


def _echo(environ, start_response, query):
    count, digest = 0, hashlib.sha256()
    while piece := environ["wsgi.input"].read(65536):
        count += len(piece)
        digest.update(piece)
    said = {
        "method": environ["REQUEST_METHOD"],
        "path": environ["SCRIPT_NAME"] + environ["PATH_INFO"],
        "query": environ["QUERY_STRING"],
        "type": environ.get("CONTENT_TYPE", ""),
        "length": count,
        "sha256": digest.hexdigest(),
    }
    return _json(start_response, said)


def _headers(environ, start_response, query):
    known = ("HTTP_HOST", "HTTP_ACCEPT_LANGUAGE", "CONTENT_TYPE")
    return _json(start_response, {k: v for k, v in environ.items() if k.startswith("HTTP_X_TEST") or k in known})


def _cookies(environ, start_response, query):
    cookies = dict(pair.split("=", 1) for pair in environ.get("HTTP_COOKIE", "").split("; ") if pair)
    fields = [("Set-Cookie", "a=1; Path=/; HttpOnly"), ("Set-Cookie", "b=2; Max-Age=60")]
    return _json(start_response, cookies, fields)


def _bytes(environ, start_response, query):
    return _answer(start_response, pattern(int(query["n"])), kind="application/octet-stream")


def _stream(environ, start_response, query):
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    yield from pieces(int(query["n"]), int(query["pieces"]))


def _status(environ, start_response, query):
    status = int(environ["PATH_INFO"].split("/")[2])
    return _answer(start_response, f"status {status}\n".encode(), status=status)


def _repeat(environ, start_response, query):
    return _answer(start_response, b"repeat", [("X-Test", "one"), ("X-Test", "two"), ("X-Other", "caf\xe9")])


# What concerns the connection; many applications set it all the same.
HOP = [("Connection", "keep-alive"), ("Keep-Alive", "timeout=5"), ("Proxy-Connection", "keep-alive")]


def _hop(environ, start_response, query):
    return _answer(start_response, b"hop", HOP)


def _redirect(environ, start_response, query):
    return _answer(start_response, b"", [("Location", "/bytes?n=5")], 302)


def _etag(environ, start_response, query):
    same = environ.get("HTTP_IF_NONE_MATCH") == '"v1"'
    return _answer(start_response, b"version 1", [("ETag", '"v1"'), ("Cache-Control", "max-age=60")], 304 if same else 200)


def _error(environ, start_response, query):
    raise RuntimeError("asked for by /error")


def _error_late(environ, start_response, query):
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield b"first"
    raise RuntimeError("asked for by /error-late")


def _slow(environ, start_response, query):
    time.sleep(int(query["ms"]) / 1000)
    return _answer(start_response, b"slow")


def _missing(environ, start_response, query):
    return _answer(start_response, b"missing", status=404)


HANDLERS = {
    "echo": _echo,
    "headers": _headers,
    "cookies": _cookies,
    "bytes": _bytes,
    "stream": _stream,
    "status": _status,
    "repeat": _repeat,
    "hop": _hop,
    "redirect": _redirect,
    "etag": _etag,
    "error": _error,
    "error-late": _error_late,
    "slow": _slow,
}
