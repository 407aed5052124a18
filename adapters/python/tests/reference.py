"""The reference application of the conformance kit (adapters/conformance/README.md), as WSGI."""

import base64
import json
import time


def application(environ, start_response):
    """Chooses by the first part of the path."""
    parts = environ["PATH_INFO"].split("/")
    handler = HANDLERS.get(parts[1] if len(parts) > 1 else "", _missing)
    return handler(environ, start_response, *map(int, filter(str.isdigit, parts[2:])))


def _echo(environ, start_response):
    headers = {
        key[5:].lower().replace("_", "-"): value for key, value in environ.items() if key.startswith("HTTP_")
    }
    for key in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if key in environ:
            headers[key.lower().replace("_", "-")] = environ[key]
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH", 0)))
    seen = {
        "method": environ["REQUEST_METHOD"],
        "mount": environ["SCRIPT_NAME"],
        "path": environ["PATH_INFO"],
        "query": environ["QUERY_STRING"],
        "version": environ["SERVER_PROTOCOL"],
        "scheme": environ["wsgi.url_scheme"],
        "remote": f"{environ['REMOTE_ADDR']} {environ['REMOTE_PORT']}",
        "local": f"{environ['SERVER_NAME']} {environ['SERVER_PORT']}",
        "headers": headers,
        "body": base64.b64encode(body).decode(),
    }
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(seen).encode()]


def _bytes(_, start_response, count):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(count))])
    return [b"x" * count]


def _chunks(_, start_response, count, size):
    start_response("200 OK", [("Content-Type", "text/plain")])
    for _ in range(count):
        yield b"y" * size


def _status(_, start_response, status):
    start_response(f"{status} Chosen", [])
    return []


def _error(environ, start_response):
    raise RuntimeError("asked for by /error")


def _error_late(_, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield b"first"
    raise RuntimeError("asked for by /error-late")


def _short(_, start_response):
    start_response("200 OK", [("Content-Length", "10")])
    return [b"12345"]


def _long(_, start_response):
    start_response("200 OK", [("Content-Length", "5")])
    return [b"1234567890"]


def _slow(_, start_response, milliseconds):
    time.sleep(milliseconds / 1000)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"slow"]


def _inject(_, start_response):
    start_response("200 OK", [("X-Value", "a\r\nInjected: yes")])
    return [b"inject"]


def _hop(_, start_response):
    start_response("200 OK", [("Connection", "upgrade"), ("Transfer-Encoding", "chunked")])
    return [b"hop"]


def _missing(_, start_response):
    start_response("404 Not Found", [("Content-Type", "text/plain")])
    return [b"missing"]


HANDLERS = {
    "echo": _echo,
    "bytes": _bytes,
    "chunks": _chunks,
    "status": _status,
    "error": _error,
    "error-late": _error_late,
    "short": _short,
    "long": _long,
    "slow": _slow,
    "inject": _inject,
    "hop": _hop,
}
