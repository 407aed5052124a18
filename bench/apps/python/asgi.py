"""ASGI without a framework: /bytes/N is N bytes."""

CONTENT = b"x" * (1 << 20)


async def application(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])  # as the specification asks of an application without a lifespan
    count = int(scope["path"].rpartition("/")[2])
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % count)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": CONTENT[:count]})
