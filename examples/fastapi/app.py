"""A small FastAPI application: what adapters/differential asks for, and a page that names it."""

import asyncio
import contextlib
import hashlib

from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from fastapi.responses import StreamingResponse


@contextlib.asynccontextmanager
async def lifespan(application):
    """Runs from the start of the process to its end: the place for connections to databases."""
    yield {"greeting": "FastAPI behind Maitred"}


app = FastAPI(lifespan=lifespan)


def pattern(count):
    """0, 1, ... 250, 0, ..."""
    return bytes(range(251)) * (count // 251) + bytes(range(count % 251))


@app.get("/", response_class=HTMLResponse)
async def index(request: Request):
    """The page."""
    links = "".join(f'<li><a href="{path}">{path}</a>' for path in ("/docs", "/echo/hello?a=1", "/stream?n=1000&pieces=5"))
    return f"<!doctype html><title>FastAPI</title><h1>{request.state.greeting}</h1><ul>{links}</ul>"


@app.api_route("/echo", methods=["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@app.api_route("/echo/{rest:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def echo(request: Request):
    """What the application gets; the body is read in pieces, so that it may be large."""
    count, digest = 0, hashlib.sha256()
    async for piece in request.stream():
        count += len(piece)
        digest.update(piece)
    return {
        "method": request.method,
        "path": request.scope["path"],
        "query": request.url.query,
        "type": request.headers.get("content-type", ""),
        "length": count,
        "sha256": digest.hexdigest(),
    }


@app.get("/headers")
async def headers(request: Request):
    """The request's fields, as far as they are the client's."""
    known = ("host", "accept-language", "content-type")
    return sorted(pair for pair in request.headers.items() if pair[0].startswith("x-test") or pair[0] in known)


@app.get("/cookies")
async def cookies(request: Request):
    """The request's cookies, and two more."""
    response = JSONResponse(request.cookies)
    response.set_cookie("a", "1", httponly=True)
    response.set_cookie("b", "2", max_age=60)
    return response


@app.api_route("/bytes", methods=["GET", "HEAD", "POST"])
async def some_bytes(n: int):
    """A body of known length."""
    return Response(pattern(n), media_type="application/octet-stream")


@app.api_route("/stream", methods=["GET", "HEAD"])
async def stream(n: int, pieces: int):
    """A body of unknown length, piece by piece."""
    data = pattern(n)
    size = -(-len(data) // pieces) if pieces else 1
    return StreamingResponse((data[at : at + size] for at in range(0, n, size)), media_type="application/octet-stream")


@app.get("/status/{status}", response_class=PlainTextResponse)
async def status_of(status: int):
    """Any status."""
    return Response(status_code=204) if status == 204 else PlainTextResponse(f"status {status}\n", status)


@app.get("/repeat")
async def repeat():
    """Fields that stand twice."""
    response = PlainTextResponse("repeat")
    for value in ("one", "two"):
        response.headers.append("X-Test", value)
    return response


@app.get("/redirect")
async def redirect():
    """A redirect within the site."""
    return RedirectResponse("/bytes?n=5", 302)


@app.get("/etag")
async def etag(request: Request):
    """A conditional request."""
    fields = {"ETag": '"v1"', "Cache-Control": "max-age=60"}
    if request.headers.get("if-none-match") == '"v1"':
        return Response(status_code=304, headers=fields)
    return PlainTextResponse("version 1", headers=fields)


@app.get("/file")
async def file():
    """A file, and parts of it."""
    return FileResponse(__file__, media_type="text/plain")


@app.get("/error")
async def error():
    """Fails."""
    raise RuntimeError("asked for by /error")


@app.get("/error-late")
async def error_late():
    """Fails when a part of the response is out."""

    async def pieces():
        yield b"first"
        raise RuntimeError("asked for by /error-late")

    return StreamingResponse(pieces(), media_type="text/plain")


@app.get("/slow", response_class=PlainTextResponse)
async def slow(ms: int):
    """Takes its time, and delays no other request."""
    await asyncio.sleep(ms / 1000)
    return "slow"


@app.websocket("/ws")
async def talk(websocket: WebSocket):
    """A WebSocket that says everything again."""
    await websocket.accept("echo" if "echo" in websocket.scope["subprotocols"] else None)
    while (message := await websocket.receive())["type"] == "websocket.receive":
        if message.get("text") is not None:
            await websocket.send_text(message["text"])
        else:
            await websocket.send_bytes(message["bytes"])


@app.websocket("/ws-refused")
async def refuse(websocket: WebSocket):
    """A WebSocket that is refused."""
    await websocket.close()
