"""RSGI applications (Granian's interface, docs/spec/RSGI.md of its repository, version 1.6), on what serves those of ASGI."""

import asyncio
import os
import sys

from . import log
from .application import shown
from .asgi import Options, Worker
from .asgi_http import IDENTITY, PATHSEND, REGION, Disconnected, plain
from .lifespan import StartupFailed
from .sendfile import open_regular

VERSION = "1.6"
# Kinds of messages of a WebSocket.
CLOSED, BYTES, TEXT = 0, 1, 2
_BYTES = (bytes, bytearray, memoryview)


def _granians(name):
    """What an exception is made from: Granian's own, if the application has imported it, because it catches that then."""
    found = getattr(sys.modules.get("granian.rsgi"), name, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else RuntimeError


class ProtocolError(_granians("ProtocolError")):
    """The application has used its protocol object in a way that is not allowed."""


class ProtocolClosed(_granians("ProtocolClosed")):
    """There is nobody any more to send to, or to receive from."""


class Headers:
    """The fields of a request; names are in lower case, and those that are asked for may be in any."""

    __slots__ = ("_pairs", "_first")

    def __init__(self, pairs):
        self._pairs = [(name.decode("latin-1"), _text(value)) for name, value in pairs]
        self._first = {}
        for name, value in self._pairs:
            self._first.setdefault(name, value)

    def __contains__(self, name):
        return name.lower() in self._first

    def __getitem__(self, name):
        return self._first[name.lower()]

    def __iter__(self):
        return iter(self._first)

    def __len__(self):
        return len(self._first)

    def keys(self):
        """The names, each once."""
        return list(self._first)

    def values(self):
        """The values of all fields, also of those that repeat."""
        return [value for _, value in self._pairs]

    def items(self):
        """All fields, also those that repeat."""
        return list(self._pairs)

    def get(self, name, default=None):
        """The value of the first field of a name."""
        return self._first.get(name.lower(), default)

    def get_all(self, name):
        """The values of all fields of a name."""
        name = name.lower()
        return [value for other, value in self._pairs if other == name]


class Scope:
    """What an application is told about a request. `root_path` and `identity` are Maitred's own: the mount of the pool, and who
    the user is, if Maitred has found that out."""

    __slots__ = ("proto", "method", "path", "http_version", "scheme", "query_string", "root_path", "_asgi", "_headers")
    rsgi_version = VERSION
    # No request comes with the pseudo-header: Maitred makes a Host of it.
    authority = None

    def __init__(self, scope, proto):
        self._asgi = scope
        self._headers = None
        self.proto = proto
        self.method = scope.get("method", "GET")
        self.path = scope["path"]
        self.http_version = "1" if scope["http_version"] == "1.0" else scope["http_version"]
        self.scheme = "https" if scope["scheme"] in ("https", "wss") else "http"
        self.query_string = scope["query_string"].decode("latin-1")
        self.root_path = scope["root_path"]

    @property
    def headers(self):
        """The fields."""
        if self._headers is None:
            self._headers = Headers(self._asgi["headers"])
        return self._headers

    @property
    def client(self):
        """Address and port of the client; empty if it has none."""
        return _address(self._asgi["client"])

    @property
    def server(self):
        """Address and port that the client has connected to; empty if there are none."""
        return _address(self._asgi["server"])

    @property
    def identity(self):
        """`{"user": NAME, "auth_type": "Basic", "Bearer" or "forward_auth"}`, or None."""
        return self._asgi["extensions"].get(IDENTITY)


class _Body:
    """The body of a request, read piece by piece by one task, while another one may wait for the client's end."""

    def __init__(self, receive):
        self._receive = receive
        self._lock = asyncio.Lock()
        # A piece that was received and not taken.
        self._piece = b""
        self._taken = asyncio.Event()
        self._over = False
        self._broken = False

    async def next(self):
        """The next piece, which is not empty; None at the end. Raises ProtocolClosed."""
        while True:
            await self._fill()
            piece, self._piece = self._piece, b""
            self._taken.set()
            if piece:
                return piece
            if self._broken:
                raise ProtocolClosed("the body is not complete") from Disconnected("the client has gone")
            if self._over:
                return None

    async def until_gone(self):
        """Returns when the client has gone, or the response is complete. While the application leaves pieces of the body unread,
        only one is received, so that the end behind them is not seen."""
        while not self._over:
            if self._piece:
                self._taken.clear()
                await self._taken.wait()
            else:
                await self._fill()
        while not self._broken:
            self._broken = (await self._receive())["type"] == "http.disconnect"

    async def _fill(self):
        async with self._lock:
            if self._piece or self._over:
                return
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._over = self._broken = True
            else:
                self._piece = message["body"]
                self._over = not message["more_body"]


class HTTPProtocol:
    """What an application does with a request of HTTP."""

    __slots__ = ("_receive", "_send", "_body", "_reads", "_answered", "_streams")

    def __init__(self, receive, send):
        self._receive = receive
        self._send = send
        self._body = None
        # Whether the application has begun to read, has answered, and does so in pieces.
        self._reads = False
        self._answered = False
        self._streams = False

    async def __call__(self):
        """The whole body. Raises ProtocolError if it was read already, and ProtocolClosed if it does not come."""
        body = self._begin_reading()
        pieces = []
        while (piece := await body.next()) is not None:
            pieces.append(piece)
        return b"".join(pieces)

    def __aiter__(self):
        """The body in pieces. Raises as `__call__` does."""
        self._begin_reading()
        return self

    async def __anext__(self):
        if not self._reads:
            raise ProtocolError("the body is read by 'async for'")
        piece = await self._body.next()
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def client_disconnect(self):
        """Returns when the client has gone, or the response is complete."""
        await self._its_body().until_gone()

    def response_empty(self, status, headers):
        """A response without a body."""
        self._whole(status, headers, b"")

    def response_str(self, status, headers, body):
        """A response of text, in UTF-8."""
        self._whole(status, headers, _encoded(body))

    def response_bytes(self, status, headers, body):
        """A response of bytes."""
        self._whole(status, headers, _raw(body))

    def response_file(self, status, headers, file):
        """A file, which Maitred delivers; 404 if it cannot be opened."""
        self._file(status, headers, file, 0, None)

    def response_file_range(self, status, headers, file, start, end):
        """The same with a part of it, which ends before `end`. Its fields are the application's to state."""
        if not 0 <= start < end:
            raise ValueError(f"not a range of a file: {start} to {end}")
        self._file(status, headers, file, start, end)

    def response_stream(self, status, headers):
        """A response in pieces, which are sent by what this returns; it is complete when the application returns."""
        self._begin(status, headers)
        self._streams = True
        return StreamTransport(self._send)

    async def end(self):
        """The application has returned."""
        if self._streams:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def _its_body(self):
        if self._body is None:
            self._body = _Body(self._receive)
        return self._body

    def _begin_reading(self):
        if self._reads:
            raise ProtocolError("the body was read already")
        self._reads = True
        return self._its_body()

    def _begin(self, status, headers):
        if self._answered:
            raise ProtocolError("there is a response already")
        _at_once(self._send, _start("http.response.start", status, headers))
        self._answered = True

    def _whole(self, status, headers, body):
        self._begin(status, headers)
        _at_once(self._send, {"type": "http.response.body", "body": body, "more_body": False})

    def _file(self, status, headers, file, start, end):
        path = os.fspath(file)
        try:
            descriptor, file_bytes = open_regular(path)
        except OSError as error:
            log.unopened(error)
            _, fields, text = plain(404, b"Not found")
            self._whole(404, fields, text)
            return
        try:
            self._begin(status, headers)
            end = file_bytes if end is None else min(end, file_bytes)
            region = descriptor, min(start, end), max(end - start, 0)
            _at_once(self._send, {"type": PATHSEND, "path": path, REGION: region})
        finally:
            os.close(descriptor)


class StreamTransport:
    """Sends the pieces of one response."""

    __slots__ = ("_send",)

    def __init__(self, send):
        self._send = send

    async def send_bytes(self, data):
        """A piece. Raises ProtocolClosed."""
        await self._piece(_raw(data))

    async def send_str(self, data):
        """A piece of text, in UTF-8. Raises ProtocolClosed."""
        await self._piece(_encoded(data))

    async def _piece(self, data):
        try:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})
        except Disconnected as error:
            raise ProtocolClosed("the client has gone") from error


class WebsocketMessage:
    """What a client has said."""

    __slots__ = ("kind", "data")

    def __init__(self, kind, data):
        self.kind = kind
        self.data = data


class WebsocketProtocol:
    """What an application does with a request for a WebSocket."""

    __slots__ = ("_receive", "_send", "_answered", "_transport")

    def __init__(self, receive, send):
        self._receive = receive
        self._send = send
        self._answered = False
        self._transport = None

    async def accept(self, subprotocol=None):
        """Opens it; `subprotocol` is Maitred's own. Raises ProtocolError after an answer, and ProtocolClosed."""
        self._answer()
        await self._receive()
        try:
            await self._send({"type": "websocket.accept", "subprotocol": subprotocol})
        except Disconnected as error:
            raise ProtocolClosed("the client has gone") from error
        self._transport = WebsocketTransport(self._receive, self._send)
        return self._transport

    def close(self, status=None):
        """Refuses with this status of HTTP (403); of an open one it is the code of its end (1000)."""
        if self._transport is not None:
            self._transport.close(1000 if status is None else status)
            return
        start = _start("websocket.http.response.start", 403 if status is None else status, ())
        self._answer()
        _at_once(self._send, start)
        _at_once(self._send, {"type": "websocket.http.response.body", "body": b"", "more_body": False})

    async def end(self):
        """The application has returned."""
        if self._transport is not None:
            await self._transport.end()

    def _answer(self):
        if self._answered:
            raise ProtocolError("the WebSocket was accepted or refused already")
        self._answered = True


class WebsocketTransport:
    """One that is open."""

    __slots__ = ("_receive", "_send", "_ended", "_closing")

    def __init__(self, receive, send):
        self._receive = receive
        self._send = send
        # Whether the application knows of the end.
        self._ended = False
        self._closing = None

    async def receive(self):
        """The next message; one of the kind CLOSED is the last. Raises ProtocolClosed behind that."""
        if self._ended:
            raise ProtocolClosed("the WebSocket has ended")
        message = await self._receive()
        if message["type"] != "websocket.receive":
            self._ended = True
            return WebsocketMessage(CLOSED, None)
        text = message.get("text")
        return WebsocketMessage(BYTES, message["bytes"]) if text is None else WebsocketMessage(TEXT, text)

    async def send_bytes(self, data):
        """A message of bytes. Raises ProtocolClosed."""
        await self._say("bytes", _raw(data))

    async def send_str(self, data):
        """A message of text. Raises ProtocolClosed."""
        _encoded(data)
        await self._say("text", data)

    def close(self, code):
        """Begins to close it. Applications say a status of HTTP here as well (Emmett: 200 at each end)."""
        if isinstance(code, bool) or not isinstance(code, int):
            raise TypeError(f"the code of an end is an int, not {type(code).__name__}")
        if not 1000 <= code <= 4999:
            code = 1011 if 500 <= code <= 599 else 1000
        if self._closing is None and not self._ended:
            self._closing = asyncio.ensure_future(self._say_close(code))

    async def end(self):
        """Until it is closed, if that has begun."""
        if self._closing is not None:
            await self._closing

    async def _say(self, kind, data):
        if self._ended or self._closing is not None:
            raise ProtocolClosed("the WebSocket has ended")
        try:
            await self._send({"type": "websocket.send", kind: data})
        except Disconnected as error:
            raise ProtocolClosed("the client has gone") from error

    async def _say_close(self, code):
        try:
            await self._send({"type": "websocket.close", "code": code})
        except Disconnected:
            pass  # Closed in another way.


def adapted(application):
    """An RSGI application as one of ASGI, without lifespan."""
    call = getattr(application, "__rsgi__", application)

    async def run(scope, receive, send):
        if scope["type"] == "http":
            protocol = HTTPProtocol(receive, send)
            await call(Scope(scope, "http"), protocol)
        else:
            protocol = WebsocketProtocol(receive, send)
            try:
                await call(Scope(scope, "ws"), protocol)
            except ProtocolClosed as error:
                raise Disconnected(str(error)) from error
        await protocol.end()

    return run


def serve(sock, application, capacity, name, recovery=None, factory=None):
    """Answers requests until the channel ends. Raises frames.ProtocolError and StartupFailed."""
    loop = (factory or asyncio.new_event_loop)()
    asyncio.set_event_loop(loop)
    try:
        _begin(application, loop)
        try:
            loop.run_until_complete(worker_of(application).main(sock, capacity, name, recovery))
        finally:
            _end(application, loop)
    finally:
        _close(loop)


def worker_of(application):
    """What answers its requests."""
    worker = Worker(adapted(application), Options(lifespan=_NoLifespan))
    # Files are the interface's own here: no middleware of ASGI sees the message.
    worker.pathsend = True
    return worker


class _NoLifespan:
    """Startup and shutdown are outside of the loop."""

    async def startup(self):
        return {}

    async def shutdown(self):
        pass


def _begin(application, loop):
    try:
        getattr(application, "__rsgi_init__", _nothing)(loop)
    except (Exception, SystemExit) as error:
        raise StartupFailed(f"__rsgi_init__ raised\n{shown(error).rstrip()}") from error


def _end(application, loop):
    try:
        getattr(application, "__rsgi_del__", _nothing)(loop)
    except (Exception, SystemExit) as error:
        sys.stderr.write(f"maitred: shutdown of the application failed: __rsgi_del__ raised\n{shown(error)}")


def _nothing(loop):
    pass


def _close(loop):
    """As asyncio.run does it."""
    try:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _at_once(send, message):
    """Sends what nothing has to be waited for. If the client has gone, the application need not know."""
    try:
        step = send(message)
        step.send(None)
    except (StopIteration, Disconnected):
        return
    # Others have their turns before it says that the client has gone.
    step.close()


def _start(kind, status, headers):
    """The message of a head. Raises TypeError and ValueError."""
    if isinstance(status, bool) or not isinstance(status, int):
        raise TypeError(f"a status is an int, not {type(status).__name__}")
    return {"type": kind, "status": status, "headers": [(_field(name), _field(value)) for name, value in headers]}


def _field(text):
    if not isinstance(text, str):
        raise TypeError(f"a header field is a pair of str, not of {type(text).__name__}")
    return text.encode("utf-8", "surrogateescape")


def _text(value):
    """What `_field` gives back to the byte."""
    return value.decode("utf-8", "surrogateescape")


def _encoded(body):
    if not isinstance(body, str):
        raise TypeError(f"text is a str, not {type(body).__name__}")
    return body.encode()


def _raw(body):
    if not isinstance(body, _BYTES):
        raise TypeError(f"the application wrote {type(body).__name__}, not bytes")
    return bytes(body)


def _address(pair):
    if pair is None:
        return ""
    host, port = pair
    host = f"[{host}]" if ":" in host else host
    return host if port is None else f"{host}:{port}"
