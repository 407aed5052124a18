"""The part of OpenAI's API that clients stream from, with a model that says what a test tells it to, when it does."""

import asyncio
import json

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

app = FastAPI()
# By the name of a conversation: what the model is to say next; None ends it.
told = {}
going = set()
ended = []
asked = {}


def _queue(name):
    return told.setdefault(name, asyncio.Queue())


def _error(status, kind, message, fields=None):
    words = {"error": {"message": message, "type": kind, "param": None, "code": kind}}
    return JSONResponse(words, status, fields)


@app.get("/v1/models")
async def models():
    """What there is."""
    return {"object": "list", "data": [{"id": "parrot", "object": "model", "created": 1, "owned_by": "trials"}]}


@app.post("/tell/{name}")
async def tell(name: str, request: Request):
    """The next word of the model in this conversation; nothing ends it."""
    word = (await request.body()).decode()
    _queue(name).put_nowait(word or None)
    return {}


@app.get("/ended")
async def over():
    """The conversations that go on, those that are over, and how; what was asked how often."""
    return {"going": sorted(going), "ended": sorted(ended), "asked": asked}


async def _stream(name, model):
    """Chunks as clients expect them. A word `:` is a comment, as servers send them while a model thinks."""
    how = "cancelled"
    going.add(name)
    try:
        while (word := await _queue(name).get()) is not None:
            if word.startswith(":"):
                yield f": {word[1:]}\n\n"
                continue
            choice = {"index": 0, "delta": {"role": "assistant", "content": word}, "finish_reason": None}
            yield f"data: {json.dumps(_chunk(name, model, choice), ensure_ascii=False)}\n\n"
        yield f"data: {json.dumps(_chunk(name, model, {'index': 0, 'delta': {}, 'finish_reason': 'stop'}))}\n\n"
        yield "data: [DONE]\n\n"
        how = "complete"
    finally:
        going.discard(name)
        ended.append(f"{name} {how}")
        told.pop(name, None)


def _chunk(name, model, choice):
    return {"id": f"chat-{name}", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [choice]}


@app.post("/v1/chat/completions")
@app.post("/impatient/v1/chat/completions")
async def completions(request: Request):
    """`user` is the name of the conversation."""
    if request.headers.get("authorization") != "Bearer trial-key":
        return _error(401, "invalid_api_key", "no such key")
    words = await request.json()
    name, model = words.get("user", "nobody"), words["model"]
    asked[name] = asked.get(name, 0) + 1
    if model == "busy" and asked[name] < 3:
        return _error(429, "rate_limit_exceeded", "too many", {"Retry-After": "1", "X-RateLimit-Remaining-Requests": "0"})
    if model not in ("parrot", "busy"):
        return _error(404, "model_not_found", f"no model {model}")
    if words.get("stream"):
        fields = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(_stream(name, model), media_type="text/event-stream", headers=fields)
    text = "".join(message["content"] for message in words["messages"])
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "chat-1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice], "usage": usage}
