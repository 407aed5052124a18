"""The reference application of the conformance kit (adapters/conformance/README.md), as RSGI."""

import asyncio
import base64
import hashlib
import json
import tempfile
from urllib.parse import unquote_to_bytes

from tests.reference import HOP, pattern_file

TEXT = [("content-type", "text/plain")]


class Application:
    """Chooses by the first part of the path."""

    async def __rsgi__(self, scope, protocol):
        path = scope.path[len(scope.root_path) :]
        parts = path.split("/")
        name = parts[1] if len(parts) > 1 else ""
        if scope.proto == "ws":
            await (_websocket if name == "ws" else _refuse)(protocol)
            return
        await HANDLERS.get(name, _missing)(scope, protocol, *map(int, filter(str.isdigit, parts[2:])))


application = Application()


async def _websocket(protocol):
    transport = await protocol.accept("echo")
    while (message := await transport.receive()).kind:
        if message.kind == 1:
            await transport.send_bytes(message.data)
        else:
            await transport.send_str(message.data)


async def _refuse(protocol):
    protocol.close(403)


def _latin(text):
    """Each byte as one character."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


async def _echo(scope, protocol):
    headers = {}
    for name, value in scope.headers.items():
        joint = "; " if name == "cookie" else ", "
        headers[name] = headers[name] + joint + _latin(value) if name in headers else _latin(value)
    seen = {
        "method": scope.method,
        "mount": scope.root_path,
        "path": _latin(scope.path[len(scope.root_path) :]),
        "query": scope.query_string,
        "version": "HTTP/" + {"1": "1.0"}.get(scope.http_version, scope.http_version),
        "scheme": scope.scheme,
        "remote": " ".join(_host_and_port(scope.client)),
        "local": " ".join(_host_and_port(scope.server)),
        "headers": headers,
        "body": base64.b64encode(await protocol()).decode(),
    }
    protocol.response_str(200, [("content-type", "application/json")], json.dumps(seen))


def _host_and_port(address):
    host, _, port = address.rpartition(":")
    return host.strip("[]"), port


async def _user(scope, protocol):
    found = scope.identity
    protocol.response_str(200, TEXT, "{user} {auth_type}".format(**found) if found else "")


async def _bytes(scope, protocol, count):
    protocol.response_bytes(200, [*TEXT, ("content-length", str(count))], b"x" * count)


async def _chunks(scope, protocol, count, size):
    transport = protocol.response_stream(200, TEXT)
    for _ in range(count):
        await transport.send_bytes(b"y" * size)


async def _status(scope, protocol, status):
    protocol.response_empty(status, [])


async def _error(scope, protocol):
    raise RuntimeError("asked for by /error")


async def _error_late(scope, protocol):
    await protocol.response_stream(200, TEXT).send_bytes(b"first")
    raise RuntimeError("asked for by /error-late")


async def _short(scope, protocol):
    protocol.response_bytes(200, [("content-length", "10")], b"12345")


async def _long(scope, protocol):
    protocol.response_bytes(200, [("content-length", "5")], b"1234567890")


async def _slow(scope, protocol, milliseconds):
    await asyncio.sleep(milliseconds / 1000)
    protocol.response_str(200, TEXT, "slow")


async def _inject(scope, protocol):
    protocol.response_str(200, [("x-value", "a\r\nInjected: yes")], "inject")


async def _hop(scope, protocol):
    protocol.response_str(200, [(name.lower(), value) for name, value in HOP], "hop")


async def _upgrade_required(scope, protocol):
    protocol.response_str(426, [*TEXT, ("upgrade", "websocket")], "upgrade")


async def _file(scope, protocol, count):
    with tempfile.NamedTemporaryFile() as file, pattern_file(count) as pattern:
        file.write(pattern.read())
        file.flush()
        protocol.response_file(200, TEXT, file.name)


async def _sendfile(scope, protocol, count):
    with tempfile.NamedTemporaryFile() as file, pattern_file(count) as pattern:
        file.write(pattern.read())
        file.flush()
        protocol.response_empty(200, [*TEXT, ("x-sendfile", file.name)])


async def _sendfile_path(scope, protocol):
    path = unquote_to_bytes(scope.query_string).decode("utf-8", "surrogateescape")
    protocol.response_str(200, [*TEXT, ("x-sendfile", path)], "instead")


async def _sum(scope, protocol):
    count, digest = 0, hashlib.sha256()
    async for piece in protocol:
        count += len(piece)
        digest.update(piece)
    protocol.response_str(200, TEXT, f"{count} {digest.hexdigest()}")


async def _wait(scope, protocol):
    await protocol.client_disconnect()


async def _refuse_http(scope, protocol):
    protocol.response_str(403, TEXT, "refused")


async def _missing(scope, protocol, *_):
    protocol.response_str(404, TEXT, "missing")


# What the interface has no means for is missing: early hints, and trailers.
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
    "file": _file,
    "sendfile": _sendfile,
    "sendfile-path": _sendfile_path,
    "sum": _sum,
    "wait": _wait,
    "ws-refused": _refuse_http,
}
