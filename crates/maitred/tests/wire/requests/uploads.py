"""Applications that hash what they are sent, and say what becomes of a body."""

import hashlib


def _say(text):
    print(text, flush=True)


def wsgi(environ, start_response):
    body, digest, begun = environ["wsgi.input"], hashlib.sha256(), False
    try:
        while piece := body.read1(65536):
            digest.update(piece)
            if not begun:
                _say("a body has begun")
                begun = True
    except OSError as error:
        _say(f"a body was lost: {type(error).__name__}")
        raise
    start_response("200 OK", [("X-Length", environ.get("CONTENT_LENGTH", "unknown"))])
    return [digest.hexdigest().encode()]


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        return await send({"type": "lifespan.shutdown.complete"})
    digest, begun, more = hashlib.sha256(), False, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            _say("a body was lost: http.disconnect")
            return
        digest.update(message["body"])
        more = message["more_body"]
        if not begun:
            _say("a body has begun")
            begun = True
    length = dict(scope["headers"]).get(b"content-length", b"unknown")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-length", length)]})
    await send({"type": "http.response.body", "body": digest.hexdigest().encode()})
