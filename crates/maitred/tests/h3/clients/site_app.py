"""The application of the site that clients of HTTP/3 ask, as ASGI: what they send comes back as text that they can compare.

| path | answer |
|---|---|
| `/app/upload` | length and SHA-256 of the request's content, as JSON |
| `/app/fields` | method, path and fields of the request, as JSON |
| `/app/trailers` | a text, and a trailer field |
| `/app/head/N` | a field of N bytes |
| `/app/endless` | content until the client has gone |
| `/app/gone` | how many of those clients have gone |
| `/app/ws` | a WebSocket that echoes |
"""

import asyncio
import hashlib
import json

PIECE = b"z" * 16_384

gone = 0


async def application(scope, receive, send):
    kind = scope["type"]
    if kind == "lifespan":
        await lifespan(receive, send)
        return
    path = scope["path"].removeprefix("/app")
    _, name, *rest = path.split("/")
    if kind == "websocket":
        await websocket(receive, send)
        return
    handler = {"upload": upload, "fields": fields, "trailers": trailers, "head": head, "endless": endless, "gone": count_gone}
    await handler.get(name, missing)(scope, receive, send, *rest)


async def lifespan(receive, send):
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def websocket(receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({**message, "type": "websocket.send"})


async def answer(send, body, status=200, headers=()):
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def missing(scope, receive, send, *_):
    await answer(send, b"not here\n", 404)


async def upload(scope, receive, send):
    length, digest, more = 0, hashlib.sha256(), True
    while more:
        message = await receive()
        piece = message.get("body", b"")
        length += len(piece)
        digest.update(piece)
        more = message.get("more_body", False)
    await answer(send, json.dumps({"length": length, "sha256": digest.hexdigest()}).encode())


async def fields(scope, receive, send, *_):
    seen = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
    said = {"method": scope["method"], "path": scope["path"], "scheme": scope["scheme"], "fields": seen}
    await answer(send, json.dumps(said).encode())


async def trailers(scope, receive, send):
    start = {"type": "http.response.start", "status": 200, "trailers": True}
    await send({**start, "headers": [(b"content-type", b"text/plain"), (b"trailer", b"x-sum")]})
    await send({"type": "http.response.body", "body": b"with trailers\n"})
    await send({"type": "http.response.trailers", "headers": [(b"x-sum", b"42")]})


async def head(scope, receive, send, count):
    await answer(send, b"long\n", headers=[(b"x-long", b"h" * int(count))])


async def endless(scope, receive, send):
    """Ends when the server says that the client has gone, or when sending fails for that reason."""
    global gone
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    end = asyncio.ensure_future(left(receive))
    try:
        while not end.done():
            await send({"type": "http.response.body", "body": PIECE, "more_body": True})
            await asyncio.sleep(0)
    except OSError:
        pass
    finally:
        gone += 1
        end.cancel()


async def left(receive):
    while (await receive())["type"] != "http.disconnect":
        pass


async def count_gone(scope, receive, send):
    await answer(send, str(gone).encode())
