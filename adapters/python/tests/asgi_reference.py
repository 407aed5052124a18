"""The reference application of the conformance kit (adapters/conformance/README.md), as ASGI."""

import asyncio
import base64
import hashlib
import json
import os
import tempfile
from urllib.parse import unquote_to_bytes

from tests.reference import HOP, pattern_file

# It is asked for in the environment of the process, which is that of a pool otherwise.
os.environ["MAITRED_PATHSEND"] = "1"

TEXT = [(b"content-type", b"text/plain")]


async def application(scope, receive, send):
    """Chooses by the first part of the path."""
    if scope["type"] == "lifespan":
        await _live(receive, send)
        return
    path = scope["path"][len(scope["root_path"]) :]
    parts = path.split("/")
    name = parts[1] if len(parts) > 1 else ""
    if scope["type"] == "websocket":
        await (_websocket if name == "ws" else _refuse)(receive, send)
        return
    handler = HANDLERS.get(name, _missing)
    await handler(scope, receive, send, *map(int, filter(str.isdigit, parts[2:])))


async def _live(receive, send):
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _websocket(receive, send):
    await receive()
    await send({"type": "websocket.accept", "subprotocol": "echo"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({**message, "type": "websocket.send"})


async def _refuse(receive, send):
    await receive()
    await send({"type": "websocket.close"})


async def _answer(send, body, headers=TEXT, status=200):
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _body(receive):
    pieces, more = [], True
    while more:
        message = await receive()
        pieces.append(message["body"])
        more = message["more_body"]
    return b"".join(pieces)


async def _echo(scope, receive, send):
    headers = {}
    for name, value in scope["headers"]:
        name, value = name.decode("latin-1"), value.decode("latin-1")
        joint = "; " if name == "cookie" else ", "
        headers[name] = headers[name] + joint + value if name in headers else value
    seen = {
        "method": scope["method"],
        "mount": scope["root_path"],
        "path": scope["path"][len(scope["root_path"]) :].encode().decode("latin-1"),
        "query": scope["query_string"].decode("latin-1"),
        "version": "HTTP/" + scope["http_version"],
        "scheme": scope["scheme"],
        "remote": "{} {}".format(*scope["client"]),
        "local": "{} {}".format(*scope["server"]),
        "headers": headers,
        "body": base64.b64encode(await _body(receive)).decode(),
    }
    await _answer(send, json.dumps(seen).encode(), [(b"content-type", b"application/json")])


async def _user(scope, receive, send):
    found = scope["extensions"].get("maitred.identity")
    await _answer(send, "{user} {auth_type}".format(**found).encode() if found else b"")


async def _bytes(scope, receive, send, count):
    await _answer(send, b"x" * count, [*TEXT, (b"content-length", str(count).encode())])


async def _chunks(scope, receive, send, count, size):
    await send({"type": "http.response.start", "status": 200, "headers": TEXT})
    for _ in range(count):
        await send({"type": "http.response.body", "body": b"y" * size, "more_body": True})
    await send({"type": "http.response.body"})


async def _status(scope, receive, send, status):
    await _answer(send, b"", [], status)


async def _error(scope, receive, send):
    raise RuntimeError("asked for by /error")


async def _error_late(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": TEXT})
    await send({"type": "http.response.body", "body": b"first", "more_body": True})
    raise RuntimeError("asked for by /error-late")


async def _short(scope, receive, send):
    await _answer(send, b"12345", [(b"content-length", b"10")])


async def _long(scope, receive, send):
    await _answer(send, b"1234567890", [(b"content-length", b"5")])


async def _slow(scope, receive, send, milliseconds):
    await asyncio.sleep(milliseconds / 1000)
    await _answer(send, b"slow")


async def _inject(scope, receive, send):
    await _answer(send, b"inject", [(b"x-value", b"a\r\nInjected: yes")])


async def _hop(scope, receive, send):
    await _answer(send, b"hop", [(name.lower().encode(), value.encode()) for name, value in HOP])


async def _upgrade_required(scope, receive, send):
    await _answer(send, b"upgrade", [*TEXT, (b"upgrade", b"websocket")], 426)


async def _early_hints(scope, receive, send):
    if "http.response.early_hint" in scope["extensions"]:
        await send({"type": "http.response.early_hint", "links": [b"</style.css>; rel=preload; as=style"]})
    await _answer(send, b"hinted")


async def _trailers(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"trailer", b"X-Sum")], "trailers": True})
    await send({"type": "http.response.body", "body": b"bo", "more_body": True})
    await send({"type": "http.response.body", "body": b"dy"})
    fields = [(b"x-sum", b"4"), (b"content-length", b"9")]
    await send({"type": "http.response.trailers", "headers": fields})


async def _file(scope, receive, send, count, named=False):
    with tempfile.NamedTemporaryFile() as file, pattern_file(count) as pattern:
        file.write(pattern.read())
        file.flush()
        if named:
            await _answer(send, b"", [*TEXT, (b"x-sendfile", os.fsencode(file.name))])
            return
        await send({"type": "http.response.start", "status": 200, "headers": TEXT})
        await send({"type": "http.response.pathsend", "path": file.name})


async def _sendfile_path(scope, receive, send):
    path = unquote_to_bytes(scope["query_string"])
    await _answer(send, b"instead", [*TEXT, (b"x-sendfile", path)])


async def _sendfile(scope, receive, send, count):
    await _file(scope, receive, send, count, named=True)


async def _sum(scope, receive, send):
    body = await _body(receive)
    await _answer(send, f"{len(body)} {hashlib.sha256(body).hexdigest()}".encode())


async def _wait(scope, receive, send):
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refuse_http(scope, receive, send):
    await _answer(send, b"refused", status=403)


async def _missing(scope, receive, send, *_):
    await _answer(send, b"missing", status=404)


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
    "trailers": _trailers,
    "file": _file,
    "sendfile": _sendfile,
    "sendfile-path": _sendfile_path,
    "sum": _sum,
    "wait": _wait,
    "ws-refused": _refuse_http,
}
