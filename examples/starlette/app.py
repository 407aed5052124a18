"""A small Starlette application: what adapters/differential asks for, and a page that names it."""

import asyncio
import contextlib
import hashlib

from starlette.applications import Starlette
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute


def pattern(count):
    """0, 1, ... 250, 0, ..."""
    return bytes(range(251)) * (count // 251) + bytes(range(count % 251))


async def index(request):
    """The page."""
    links = "".join(f'<li><a href="{path}">{path}</a>' for path in ("/echo/hello?a=1", "/stream?n=1000&pieces=5", "/file"))
    return HTMLResponse(f"<!doctype html><title>Starlette</title><h1>{request.state.greeting}</h1><ul>{links}</ul>")


async def echo(request):
    """What the application gets; the body is read in pieces, so that it may be large."""
    count, digest = 0, hashlib.sha256()
    async for piece in request.stream():
        count += len(piece)
        digest.update(piece)
    said = {
        "method": request.method,
        "path": request.scope["path"],
        "query": request.url.query,
        "type": request.headers.get("content-type", ""),
        "length": count,
        "sha256": digest.hexdigest(),
    }
    return JSONResponse(said)


async def headers(request):
    """The request's fields, as far as they are the client's."""
    known = ("host", "accept-language", "content-type")
    return JSONResponse(sorted(pair for pair in request.headers.items() if pair[0].startswith("x-test") or pair[0] in known))


async def cookies(request):
    """The request's cookies, and two more."""
    response = JSONResponse(request.cookies)
    response.set_cookie("a", "1", httponly=True)
    response.set_cookie("b", "2", max_age=60)
    return response


async def some_bytes(request):
    """A body of known length."""
    return Response(pattern(int(request.query_params["n"])), media_type="application/octet-stream")


async def stream(request):
    """A body of unknown length, piece by piece."""
    data, number = pattern(int(request.query_params["n"])), int(request.query_params["pieces"])
    size = -(-len(data) // number) if number else 1

    async def pieces():
        for at in range(0, len(data), size):
            yield data[at : at + size]

    return StreamingResponse(pieces(), media_type="application/octet-stream")


async def status_of(request):
    """Any status."""
    status = request.path_params["status"]
    return Response("" if status == 204 else f"status {status}\n", status, media_type="text/plain")


async def repeat(request):
    """Fields that stand twice."""
    response = Response("repeat", media_type="text/plain")
    for value in ("one", "two"):
        response.headers.append("X-Test", value)
    return response


async def redirect(request):
    """A redirect within the site."""
    return RedirectResponse("/bytes?n=5", 302)


async def etag(request):
    """A conditional request."""
    same = request.headers.get("if-none-match") == '"v1"'
    fields = {"ETag": '"v1"', "Cache-Control": "max-age=60"}
    return Response(None if same else "version 1", 304 if same else 200, fields, None if same else "text/plain")


async def file(request):
    """A file, and parts of it."""
    return FileResponse(__file__, media_type="text/plain")


async def error(request):
    """Fails."""
    raise RuntimeError("asked for by /error")


async def error_late(request):
    """Fails when a part of the response is out."""

    async def pieces():
        yield b"first"
        raise RuntimeError("asked for by /error-late")

    return StreamingResponse(pieces(), media_type="text/plain")


async def slow(request):
    """Takes its time, and delays no other request."""
    await asyncio.sleep(int(request.query_params["ms"]) / 1000)
    return Response("slow", media_type="text/plain")


async def talk(websocket):
    """A WebSocket that says everything again."""
    await websocket.accept("echo" if "echo" in websocket.scope["subprotocols"] else None)
    while (message := await websocket.receive())["type"] == "websocket.receive":
        if message.get("text") is not None:
            await websocket.send_text(message["text"])
        else:
            await websocket.send_bytes(message["bytes"])


async def refuse(websocket):
    """A WebSocket that is refused."""
    await websocket.close()


@contextlib.asynccontextmanager
async def lifespan(application):
    """Runs from the start of the process to its end: the place for connections to databases."""
    yield {"greeting": "Starlette behind Maitred"}


METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
app = Starlette(
    lifespan=lifespan,
    routes=[
        Route("/", index),
        Route("/echo", echo, methods=METHODS),
        Route("/echo/{rest:path}", echo, methods=METHODS),
        Route("/headers", headers),
        Route("/cookies", cookies),
        Route("/bytes", some_bytes, methods=["GET", "POST"]),
        Route("/stream", stream),
        Route("/status/{status:int}", status_of),
        Route("/repeat", repeat),
        Route("/redirect", redirect),
        Route("/etag", etag),
        Route("/file", file),
        Route("/error", error),
        Route("/error-late", error_late),
        Route("/slow", slow),
        WebSocketRoute("/ws", talk),
        WebSocketRoute("/ws-refused", refuse),
    ],
)
