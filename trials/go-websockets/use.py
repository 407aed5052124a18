"""Clients of WebSockets, of WebDAV and of a stream of events."""

import websockets

from kit import expect, step


def _talk(user, path):
    with user.websocket(path, subprotocols=["echo"]) as socket:
        user.note("subprotocol", socket.subprotocol)
        for message in ("hello é", b"\x00\xff", "x" * 1_000_000):
            socket.send(message)
            user.note("the same", socket.recv(30) == message)
        user.reload()
        socket.send("after the reload")
        user.note("after the reload", socket.recv(30))
        socket.send("close")
        try:
            socket.recv(30)
        except websockets.exceptions.ConnectionClosed as closed:
            user.note("closed", (closed.rcvd.code, closed.rcvd.reason))


@step
def by_coder(user):
    """coder/websocket: text, bytes, 1 MB, subprotocol, close codes, across a reload; 426 without an upgrade"""
    _talk(user, "/coder")
    user.see("no upgrade", user.get("/coder"))
    # Over HTTP/2 there is no field that asks for it.
    asked = user.get("/coder", {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "8"})
    user.note("wrong version", asked.status if user.protocol != "https/2" else 400)


@step
def by_gorilla(user):
    """gorilla/websocket: the same"""
    _talk(user, "/gorilla")
    user.see("no upgrade", user.get("/gorilla"))


@step
def webdav(user):
    """x/net/webdav: PUT of 20 MB, MKCOL, PROPFIND, COPY, MOVE, LOCK, conditions; files with ranges"""
    user.mask(r'"?[0-9a-f]{14,}"?', "(etag)")
    user.mask(r"(opaquelocktoken:)?\d{10,}", "(token)")
    user.mask(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 20\d\d [\d:]{8} GMT", "(time)")
    ask, data = user.request, bytes(range(256)) * 80_000
    user.see("PUT", ask("PUT", "/dav/a%20b.bin", body=data))
    user.see("PUT in pieces", ask("PUT", "/dav/pieces.txt", body=iter([b"one ", b"two"])))
    user.see("GET", user.get("/dav/a%20b.bin"))
    user.see("range", user.get("/files/a%20b.bin", {"Range": "bytes=1000000-1000099"}))
    user.see("ranges", user.get("/files/pieces.txt", {"Range": "bytes=-3"}))
    user.see("listing", user.get("/files/"))
    user.see("MKCOL", ask("MKCOL", "/dav/d%C3%A9/"))
    user.see("PROPFIND", ask("PROPFIND", "/dav/", {"Depth": "1"}), body=False)
    to = {"Destination": user.base + "/dav/d%C3%A9/copy.txt"}
    user.see("COPY", ask("COPY", "/dav/pieces.txt", to))
    user.see("MOVE", ask("MOVE", "/dav/pieces.txt", {**to, "Overwrite": "F"}))
    user.see("MOVE", ask("MOVE", "/dav/pieces.txt", {**to, "Overwrite": "T"}))
    lock = b'<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>'
    user.see("LOCK", ask("LOCK", "/dav/a%20b.bin", {"Timeout": "Second-60"}, lock))
    user.see("locked", ask("DELETE", "/dav/a%20b.bin"))
    user.see("gone", user.get("/dav/pieces.txt"))


@step
def events(user):
    """a stream of events whose head comes first, a listener before and after a reload; upload of 20 MB; r.TLS"""
    with user.start("GET", "/events") as stream:
        user.see("head", stream.head(), body=False)
        heard = stream.events()
        user.see("say", user.post("/say", form={"text": "hello"}))
        user.note("heard", next(heard))
        user.reload()
        user.see("say after the reload", user.post("/say", form={"text": "still there?"}))
        user.note("heard after the reload", next(heard))
    user.until("the listener to be gone", lambda: user.post("/say", form={"text": "x"}).text == "0\n")
    user.see("upload", user.post("/upload", body=bytes(20_000_000)))
    user.mask("tls=(true|false)", "tls=(as it is)")
    told = user.see("what it knows", user.get("/said?x=%20y"))
    expect(("tls=true" in told.text) == user.base.startswith("https"), f"it does not know how it is asked: {told.text}")
