"""The application of the differential test (adapters/differential/README.md), as ASGI."""

import asyncio
import hashlib
import json

from tests.differential_wsgi import HOP, pattern, pieces


async def application(scope, receive, send):
    """Chooses by the first part of the path."""
    if scope["type"] == "lifespan":
        await _live(receive, send)
        return
    name = scope["path"].split("/")[1]
    if scope["type"] == "websocket":
        await (_websocket if name == "ws" else _refuse)(scope, receive, send)
        return
    query = dict(pair.split(b"=", 1) for pair in scope["query_string"].split(b"&") if b"=" in pair)
    await HANDLERS.get(name, _missing)(scope, receive, send, {key.decode(): value for key, value in query.items()})


async def _live(receive, send):
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _websocket(scope, receive, send):
    await receive()
    wanted = "echo" if "echo" in scope["subprotocols"] else None
    await send({"type": "websocket.accept", "subprotocol": wanted})
    while (message := await receive())["type"] == "websocket.receive":
        if message.get("text") is not None:
            await send({"type": "websocket.send", "text": message["text"]})
        else:
            await send({"type": "websocket.send", "bytes": message["bytes"]})


async def _refuse(scope, receive, send):
    await receive()
    await send({"type": "websocket.close"})


async def _answer(send, body, fields=(), status=200, kind=b"text/plain"):
    bodiless = status in (204, 304)
    length = [] if bodiless else [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*length, *fields]})
    await send({"type": "http.response.body", "body": b"" if bodiless else body})


async def _json(send, value, fields=()):
    await _answer(send, json.dumps(value, sort_keys=True).encode(), fields, kind=b"application/json")


def _fields(scope):
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]


async def _echo(scope, receive, send, query):
    count, digest, more = 0, hashlib.sha256(), True
    while more:
        message = await receive()
        count += len(message.get("body", b""))
        digest.update(message.get("body", b""))
        more = message.get("more_body", False)
    said = {
        "method": scope["method"],
        "path": scope["path"],
        "query": scope["query_string"].decode("latin-1"),
        "type": dict(_fields(scope)).get("content-type", ""),
        "length": count,
        "sha256": digest.hexdigest(),
    }
    await _json(send, said)


async def _headers(scope, receive, send, query):
    known = ("host", "accept-language", "content-type")
    await _json(send, sorted(pair for pair in _fields(scope) if pair[0].startswith("x-test") or pair[0] in known))


async def _cookies(scope, receive, send, query):
    found = "; ".join(value for name, value in _fields(scope) if name == "cookie")
    cookies = dict(pair.split("=", 1) for pair in found.split("; ") if pair)
    await _json(send, cookies, [(b"set-cookie", b"a=1; Path=/; HttpOnly"), (b"set-cookie", b"b=2; Max-Age=60")])


async def _bytes(scope, receive, send, query):
    await _answer(send, pattern(int(query["n"])), kind=b"application/octet-stream")


async def _stream(scope, receive, send, query):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/octet-stream")]})
    for piece in pieces(int(query["n"]), int(query["pieces"])):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body"})


async def _status(scope, receive, send, query):
    status = int(scope["path"].split("/")[2])
    await _answer(send, b"status %d\n" % status, status=status)


async def _repeat(scope, receive, send, query):
    await _answer(send, b"repeat", [(b"x-test", b"one"), (b"x-test", b"two"), (b"x-other", b"caf\xe9")])


async def _hop(scope, receive, send, query):
    await _answer(send, b"hop", [(name.lower().encode(), value.encode()) for name, value in HOP])


async def _redirect(scope, receive, send, query):
    await _answer(send, b"", [(b"location", b"/bytes?n=5")], 302)


async def _etag(scope, receive, send, query):
    same = (b"if-none-match", b'"v1"') in scope["headers"]
    await _answer(send, b"version 1", [(b"etag", b'"v1"'), (b"cache-control", b"max-age=60")], 304 if same else 200)


async def _error(scope, receive, send, query):
    raise RuntimeError("asked for by /error")


async def _error_late(scope, receive, send, query):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"first", "more_body": True})
    raise RuntimeError("asked for by /error-late")


async def _slow(scope, receive, send, query):
    await asyncio.sleep(int(query["ms"]) / 1000)
    await _answer(send, b"slow")


async def _missing(scope, receive, send, query):
    await _answer(send, b"missing", status=404)


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
