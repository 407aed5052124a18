"""The reference application of the conformance kit (adapters/conformance/README.md), as WSGI."""

import base64
import hashlib
import json
import os
import tempfile
import time
from urllib.parse import unquote

from maitred import websocket


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


def _user(environ, start_response):
    user = environ.get("REMOTE_USER")
    body = "" if user is None else f"{user} {environ.get('AUTH_TYPE', '')}"
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body.encode("latin-1")]


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


# What concerns the connection, and is no application's.
HOP = [
    ("Connection", "keep-alive"),
    ("Keep-Alive", "timeout=5"),
    ("Proxy-Connection", "keep-alive"),
    ("Transfer-Encoding", "chunked"),
]


def _hop(_, start_response):
    start_response("200 OK", HOP)
    return [b"hop"]


def _upgrade_required(_, start_response):
    start_response("426 Upgrade Required", [("Upgrade", "websocket"), ("Content-Type", "text/plain")])
    return [b"upgrade"]


def _early_hints(environ, start_response):
    environ.get("wsgi.early_hints", lambda headers: None)([("link", "</style.css>; rel=preload; as=style")])
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hinted"]


def pattern_file(count):
    """A file without a name with `count` bytes 0, 1, ... 250, 0, ..."""
    file = tempfile.TemporaryFile()
    file.write(bytes(range(251)) * (count // 251) + bytes(range(count % 251)))
    file.seek(0)
    return file


def _file(environ, start_response, count):
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    return environ["wsgi.file_wrapper"](pattern_file(count))


def _sendfile(_, start_response, count):
    path = os.path.join(tempfile.gettempdir(), f"maitred-reference-{os.getpid()}")
    with open(path, "wb") as named, pattern_file(count) as file:
        named.write(file.read())
    start_response("200 OK", [("Content-Type", "application/octet-stream"), ("X-Sendfile", path)])
    return _Unlinking(path)


def _sendfile_path(environ, start_response):
    path = unquote(environ["QUERY_STRING"], "latin-1")
    start_response("200 OK", [("Content-Type", "application/octet-stream"), ("X-Sendfile", path)])
    return [b"instead"]


class _Unlinking:
    """An empty body that removes a file when it is closed."""

    def __init__(self, path):
        self._path = path

    def __iter__(self):
        return iter(())

    def close(self):
        os.unlink(self._path)


def _sum(environ, start_response):
    count, digest = 0, hashlib.sha256()
    while piece := environ["wsgi.input"].read(100_000):
        count += len(piece)
        digest.update(piece)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{count} {digest.hexdigest()}".encode()]


def _refuse(_, start_response):
    start_response("403 Forbidden", [("Content-Type", "text/plain")])
    return [b"refused"]


def _websocket(environ, start_response):
    """On the socket itself, as libraries for WSGI do it."""
    sock = environ.get("werkzeug.socket") or environ.get("gunicorn.socket")
    if sock is None:
        return _missing(environ, start_response)
    key = websocket.accept_key(environ["HTTP_SEC_WEBSOCKET_KEY"].encode()).decode()
    sock.sendall(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {key}\r\nSec-WebSocket-Protocol: echo\r\n\r\n".encode()
    )
    parser = websocket.Parser(16 * 1024 * 1024)
    try:
        while data := sock.recv(65536):
            for opcode, payload in parser.feed(data):
                if opcode == websocket.CLOSE:
                    sock.sendall(websocket.encode_close(payload[0]))
                    return []
                if opcode != websocket.PONG:
                    payload = payload.encode() if isinstance(payload, str) else payload
                    sock.sendall(websocket.encode(websocket.PONG if opcode == websocket.PING else opcode, payload))
    except websocket.Violation as violation:
        sock.sendall(websocket.encode_close(violation.code))
    return []


def _missing(_, start_response):
    start_response("404 Not Found", [("Content-Type", "text/plain")])
    return [b"missing"]


HANDLERS = {
    "echo": _echo,
    "user": _user,
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
    "426": _upgrade_required,
    "early-hints": _early_hints,
    "file": _file,
    "sendfile": _sendfile,
    "sendfile-path": _sendfile_path,
    "sum": _sum,
    "ws": _websocket,
    "ws-refused": _refuse,
}
