"""A small site with a session, server-sent events and a WebSocket."""

from kit import step


@step
def session(user):
    """login, session cookie, flashed messages, 403, 404, external URLs"""
    user.mask(r"session=[\w.-]+", "session=(signed)")
    user.see("without a login", user.get("/"))
    user.see("wrong", user.post("/login", form={"user": "Anna", "password": "wrong"}))
    user.see("right", user.post("/login", form={"user": "Anna", "password": "right"}))
    user.see("Anna", user.get("/"))
    user.see("Anna, told once", user.get("/"))
    user.see("another user", user.another().get("/"))
    user.see("missing", user.get("/missing"))
    user.see("slash", user.get("/login/"))
    user.see("method", user.get("/login"))


@step
def files(user):
    """20 MB upload, download with ranges and conditions"""
    data = bytes(range(256)) * 80_000
    user.see("upload", user.post("/upload", files={"file": ("a.bin", data, "application/octet-stream")}))
    file = user.see("file", user.get("/download"), without=("etag", "last-modified"))
    user.see("range", user.get("/download", {"Range": "bytes=-20"}), without=("etag", "last-modified"))
    user.see("not modified", user.get("/download", {"If-None-Match": file.one("etag")}), without=("etag", "last-modified"))


@step
def events(user):
    """the usual snippet for server-sent events, across a reload"""
    with user.start("GET", "/events?who=Anna") as stream:
        user.see("head", stream.head(), body=False)
        found = stream.events()
        first = [next(found) for _ in range(3)]
        user.reload()
        user.note("events", [*first, *found])
        user.note("end", stream.end)


@step
def websocket(user):
    """WebSocket by flask-sock: text, bytes, 1 MB, closing codes, across a reload"""
    with user.websocket("/echo") as socket:
        for message in ("hello", b"\x00\xff", "x" * 1_000_000):
            socket.send(message)
            user.note("the same", socket.recv(30) == message)
        user.reload()
        socket.send("after the reload")
        user.note("after the reload", socket.recv(30))
        socket.send("close")
        try:
            socket.recv(30)
        except Exception as closed:
            user.note("closed", str(closed))
