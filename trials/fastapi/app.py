"""A chat: what one says, the others receive, by server-sent events or WebSocket. The listeners are kept in this process."""

import asyncio
import hashlib

from fastapi import BackgroundTasks, FastAPI, Form, HTTPException, UploadFile, WebSocket, WebSocketDisconnect
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import FileResponse, RedirectResponse, StreamingResponse
from pydantic import BaseModel
from sse_starlette import EventSourceResponse

app = FastAPI(title="Chat")
app.add_middleware(GZipMiddleware, minimum_size=1000)
listeners = set()
finished = []
ended = []


class Said(BaseModel):
    """What a user says."""

    who: str
    text: str


@app.post("/say", status_code=201)
async def say(said: Said, background: BackgroundTasks):
    """Tells all listeners."""
    for queue in listeners:
        queue.put_nowait(f"{said.who}: {said.text}")
    background.add_task(finished.append, said.text)
    return {"heard": len(listeners)}


@app.get("/finished")
async def done():
    """What background tasks have done, and whose streams have ended."""
    return {"finished": finished, "ended": ended, "listeners": len(listeners)}


@app.get("/events")
async def events(who: str = "a guest"):
    """A stream that ends when its listener goes."""
    queue = asyncio.Queue()

    async def stream():
        listeners.add(queue)
        try:
            yield {"event": "welcome", "data": who}
            while True:
                yield {"data": await queue.get()}
        finally:
            listeners.discard(queue)
            ended.append(who)

    return EventSourceResponse(stream(), ping=1)


@app.websocket("/ws")
async def chat(socket: WebSocket):
    """The same, both ways."""
    await socket.accept()
    queue = asyncio.Queue()
    listeners.add(queue)

    async def tell():
        while True:
            await socket.send_text(await queue.get())

    task = asyncio.create_task(tell())
    try:
        while True:
            text = await socket.receive_text()
            for each in listeners:
                each.put_nowait(text)
    except WebSocketDisconnect as gone:
        ended.append(f"ws {gone.code}")
    finally:
        task.cancel()
        listeners.discard(queue)


@app.post("/upload")
async def upload(file: UploadFile, title: str = Form()):
    """What has come of a file."""
    data = await file.read()
    return {"title": title, "name": file.filename, "length": len(data), "sha256": hashlib.sha256(data).hexdigest()}


@app.get("/file")
async def file():
    """A file of some size, compressible."""
    return FileResponse(__file__, media_type="text/x-python", filename="app é.py")


@app.get("/lines")
async def lines(n: int):
    """A stream of pieces."""

    async def pieces():
        for number in range(n):
            yield f"line {number}\n" * 100

    return StreamingResponse(pieces(), media_type="text/plain")


@app.get("/old")
async def old():
    """A redirect to an address that the application makes."""
    return RedirectResponse(app.url_path_for("done"))


@app.get("/items/{number}")
async def item(number: int):
    """Validation, and an error of the application's."""
    if number == 404:
        raise HTTPException(404, detail="no such item", headers={"X-Error": "yes"})
    return {"number": number, "root": app.root_path}


@app.get("/broken")
async def broken():
    """A mistake of the application's."""
    raise RuntimeError("on purpose")
