"""A chat by server-sent events and WebSocket, and what else FastAPI's documentation shows."""

import json

from kit import expect, step


def _next(events):
    """The next event that is no ping."""
    for event in events:
        if event[0][0] != "":
            return event
    return None


@step
def pages(user):
    """OpenAPI, Swagger UI, validation errors, exceptions, redirects with a slash"""
    for path in ("/openapi.json", "/docs", "/items/5", "/items/404", "/items/x", "/nothing", "/broken", "/old", "/items/5/"):
        user.see(path, user.get(path))
    user.see("HEAD is not GET", user.request("HEAD", "/items/5"))
    user.see("method", user.request("DELETE", "/say"))


@step
def files(user):
    """10 MB upload, a download with ranges, gzip by middleware, a stream"""
    data = bytes(range(256)) * 40_000
    user.see("upload", user.post("/upload", form={"title": "Bücher"}, files={"file": ("b.bin", data, "application/octet-stream")}))
    user.see("no title", user.post("/upload", files={"file": ("b.bin", b"x", "text/plain")}))
    user.see("file", user.get("/file"))
    user.see("range", user.get("/file", {"Range": "bytes=10-19"}))
    # The time in gzip's header (RFC 1952) is another each second.
    user.see("gzip", user.get("/file", {"Accept-Encoding": "gzip"}), body=False)
    user.see("stream", user.get("/lines?n=1000"))
    user.see("stream, gzip", user.get("/lines?n=1000", {"Accept-Encoding": "gzip"}), body=False)


@step
def server_sent_events(user):
    """server-sent events with pings, a listener before and after a reload, a listener who goes"""
    with user.start("GET", "/events?who=Anna", {"Accept": "text/event-stream"}) as stream:
        user.see("head of the stream", stream.head(), body=False)
        events = stream.events()
        user.note("welcome", _next(events))
        user.see("say", user.post("/say", json={"who": "Ben", "text": "hello"}))
        user.note("heard", _next(events))
        ping = next(events)
        expect(ping[0][0] == "", f"no ping: {ping}")
        user.reload()
        user.see("say after the reload", user.post("/say", json={"who": "Ben", "text": "are you there?"}))
        user.note("heard after the reload", _next(events))
    user.until("the application to notice that Anna is gone", lambda: user.get("/finished").json()["ended"] == ["Anna"])
    user.see("background tasks", user.get("/finished"))


@step
def websocket(user):
    """WebSocket: text, 1 MB, both ways, across a reload"""
    with user.websocket("/ws") as one, user.websocket("/ws") as other:
        one.send("hello")
        user.note("both hear", (one.recv(30), other.recv(30)))
        other.send("x" * 1_000_000)
        user.note("1 MB", (len(one.recv(30)), len(other.recv(30))))
        user.reload()
        one.send("still there?")
        user.note("after the reload", (one.recv(30), other.recv(30)))
        user.note("by HTTP", user.post("/say", json={"who": "Ben", "text": "too"}).json())
        user.note("both hear that", (one.recv(30), other.recv(30)))
    user.until("both to be gone", lambda: user.get("/finished").json()["listeners"] == 0)
    user.note("how they went", json.dumps(user.get("/finished").json()["ended"][-2:]))
