"""Visitors of Tomcat's own examples."""

import websockets

from kit import expect, step

_AT = "/examples"


@step
def pages(user):
    """files with conditions and ranges, JSP, servlets, forwards, redirects, errors, a form of login"""
    user.mask(r"\b[0-9A-F]{32}\b", "(session)")
    # A session's cookie has it where the client asks by https.
    user.mask(r"; Secure", "")
    files = ("/", "/websocket/echo.xhtml", "/jsp/images/code.gif")
    jsp = ("/jsp/jsp2/el/basic-arithmetic.jsp", "/jsp/jsp2/simpletag/repeat.jsp", "/jsp/error/err.jsp?name=audi&submit=Submit")
    servlets = ("/servlets/servlet/HelloWorldExample", "/servletToJsp", "/servlets/nonblocking/numberwriter")
    wrong = ("/missing", "/jsp/error/err.jsp?name=integra", "/servlets/..;/WEB-INF/web.xml", "/WEB-INF/web.xml")
    for path in (*files, *jsp, *servlets, *wrong, "/jsp", "/jsp/security/protected/index.jsp"):
        user.see(path, user.get(_AT + path))
    user.see("root", user.get(""))
    user.see("without a slash", user.get(_AT))
    tag = user.get(_AT + "/").one("etag")
    user.see("not changed", user.get(_AT + "/", {"If-None-Match": tag}))
    user.see("range", user.get(_AT + "/", {"Range": "bytes=100-199"}))
    user.see("ranges", user.get(_AT + "/", {"Range": "bytes=5000-"}))
    user.see("HEAD", user.request("HEAD", _AT + "/servlets/servlet/HelloWorldExample"))
    user.see("OPTIONS", user.request("OPTIONS", _AT + "/"))
    user.see("PUT", user.request("PUT", _AT + "/new.txt", body=b"no"))
    user.see("compression", user.get(_AT + "/CompressionTest", {"Accept-Encoding": "gzip"}), body=False)
    form = {"firstname": "Anna é", "lastname": "<b>"}
    told = user.see("parameters", user.post(_AT + "/servlets/servlet/RequestParamExample", form=form))
    expect("Anna é" in told.text, told.text)


@step
def sessions(user):
    """sessions and cookies, across a reload: carts, attributes; another user has none; https is seen"""
    user.mask(r"\b[0-9A-F]{32}\b", "(session)")
    user.mask(r"; Secure", "")
    user.mask(r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d [\d:]{8} UTC 20\d\d", "(time)")
    # An object of Java's, and a set of strings: another number, and another order, in each process.
    user.mask(r"DummyCart@[0-9a-f]+", "DummyCart@(number)")
    user.mask(r"<li> (Twin peaks tapes|X-files movie)", "<li> (item)")
    other = user.another()
    cookie = user.see("another user", other.get(_AT + "/jsp/sessions/carts.jsp")).one("set-cookie") or ""
    expect(("; Secure" in cookie) == user.base.startswith("https"), f"isSecure() is wrong: {cookie}")
    user.see("cart", user.get(_AT + "/jsp/sessions/carts.jsp?itemId=1&submit=add"))
    user.see("attribute", user.post(_AT + "/servlets/servlet/SessionExample", form={"dataname": "één", "datavalue": "x"}))
    user.see("cookie", user.post(_AT + "/servlets/servlet/CookieExample", form={"cookiename": "own", "cookievalue": "value"}))
    user.reload()
    again = user.see("cart after the reload", user.get(_AT + "/jsp/sessions/carts.jsp?itemId=2&submit=add"))
    expect(again.text.count("<li>") == 2, again.text)
    user.see("attribute after the reload", user.get(_AT + "/servlets/servlet/SessionExample"))
    user.see("cookie after the reload", user.get(_AT + "/servlets/servlet/CookieExample"))
    user.see("still nothing", other.get(_AT + "/jsp/sessions/carts.jsp"))
    other.close()
    info = user.get(_AT + "/servlets/servlet/RequestInfoExample/more/%2e?x=%20y").text
    user.note("address", "127.0.0.1" in info)


@step
def bodies(user):
    """20 MB up, at once and in pieces, read without blocking; a form of 1 MB"""
    data = bytes(range(256)) * 80_000
    path = _AT + "/servlets/nonblocking/bytecounter"
    user.see("at once", user.post(path, {"Content-Type": "application/x-own"}, data))
    pieces = (data[at : at + 50_000] for at in range(0, 5_000_000, 50_000))
    user.see("in pieces", user.post(path, {"Content-Type": "application/x-own"}, pieces))
    user.see("a form", user.post(_AT + "/servlets/servlet/RequestParamExample", form={"firstname": "x" * 1_000_000}))
    user.see("a long address", user.get(_AT + "/servlets/servlet/HelloWorldExample?" + "x" * 7000), body=False)


@step
def asynchronous(user):
    """asynchronous servlets, six at once across a reload; a stream of prices across another, which its reader leaves"""
    user.mask(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "(time)")
    others = [user.another() for _ in range(6)]
    asked = [each.start("GET", f"{_AT}/async/async{number % 2}") for number, each in enumerate(others)]
    for each in asked:
        each.sent()
    user.reload()
    for number, each in enumerate(asked):
        user.see(f"answer {number}", each.whole(), without=("content-length",))
    for each in others:
        each.close()
    user.see("timed out", user.get(_AT + "/async/async2"))
    with user.start("GET", _AT + "/async/stockticker") as stream:
        user.see("head", stream.head(), body=False)
        lines = stream.lines()
        user.note("a price", next(lines).split("#")[0])
        user.reload()
        for _ in range(4):
            expect(next(lines).startswith("STOCK#"), "no more prices")
    user.see("afterwards", user.get(_AT + "/async/async1"), without=("content-length",))


@step
def sockets(user):
    """WebSockets: text, bytes, 200 KB, ping, across a reload; a chat of two; what is no upgrade"""
    for name in ("echoAnnotation", "echoProgrammatic", "echoStreamAnnotation"):
        with user.websocket(f"{_AT}/websocket/{name}", compression=None) as socket:
            for message in ("héllo", b"\x00\xff" * 100, "x" * 200_000 if name == "echoAnnotation" else "x" * 5000):
                socket.send(message)
                user.note(f"{name} {type(message).__name__}", socket.recv(30) == message)
            user.note("pong", socket.ping().wait(30))
            if name == "echoAnnotation":
                user.reload()
                socket.send("after the reload")
                user.note("after the reload", socket.recv(30))
    user.mask(r"Guest\d+", "(guest)")
    with user.websocket(f"{_AT}/websocket/chat") as one:
        user.note("joined", one.recv(30))
        with user.websocket(f"{_AT}/websocket/chat") as other:
            user.note("the other joined", (one.recv(30), other.recv(30)))
            user.reload()
            other.send("<é>")
            user.note("heard", (one.recv(30), other.recv(30)))
        user.note("left", one.recv(30))
    user.see("no upgrade", user.get(f"{_AT}/websocket/echoAnnotation"))
    try:
        with user.websocket(f"{_AT}/websocket/none"):
            expect(False, "a WebSocket where none is")
    except websockets.exceptions.InvalidStatus as refused:
        user.note("refused", refused.response.status_code)
