"""One WebSocket of an ASGI application (asgi.readthedocs.io, WebSocket, version 2.4), on a connection that is taken over."""

import asyncio
import contextlib
import socket
from email.utils import formatdate
from typing import NamedTuple, Optional

from . import frames, log, websocket
from .asgi_http import Disconnected, head_of, plain
from .head import concerns_the_connection, field_line
from .tail import ClientGone

# The extension by which an application refuses with a response of its own, and the messages of that.
_RESPONSE = "websocket.http.response"
_READ_BYTES = 64 * 1024
# How long the client has to answer CLOSE.
_CLOSE_S = 5.0


class Limits(NamedTuple):
    """What bounds one WebSocket."""

    # Whether there are any: without, a request for one is a request of HTTP.
    enabled: bool = True
    message_bytes_max: int = 16 * 1024 * 1024
    # Messages that wait for the application before the client has to.
    messages_max: int = 16
    # After so many seconds without a byte the client is asked whether it is there (None: never); after so many more it is not.
    ping_s: Optional[float] = 20.0
    pong_s: Optional[float] = 20.0


def wanted(flags, scope):
    """Whether a request that may detach asks for a WebSocket (RFC 6455, 4.2.1): its key, else None."""
    if not flags & frames.MAY_DETACH or scope["method"] != "GET":
        return None
    fields = {name: value for name, value in scope["headers"]}
    if fields.get(b"upgrade", b"").strip().lower() != b"websocket":
        return None
    if fields.get(b"sec-websocket-version", b"").strip() != b"13":
        return None
    return fields.get(b"sec-websocket-key")


def scope_for(scope):
    """The scope of HTTP turned into that of a WebSocket."""
    offered = b",".join(value for name, value in scope["headers"] if name == b"sec-websocket-protocol")
    scope = {key: value for key, value in scope.items() if key != "method"}
    scope["type"] = "websocket"
    # Here an application receives the end in either way.
    scope["asgi"] = {**scope["asgi"], "spec_version": "2.4"}
    scope["extensions"] = {_RESPONSE: {}}
    scope["scheme"] = "wss" if scope["scheme"] == "https" else "ws"
    scope["subprotocols"] = [name.strip().decode("latin-1") for name in offered.split(b",") if name.strip()]
    return scope


class WebSocket:
    """One that runs. `detach()` has to say DETACH, and to give the descriptor away."""

    def __init__(self, application, scope, key, head, early, writer, detach, limits=Limits()):
        self._application = application
        self.scope = scope
        self._limits = limits
        self._key = key
        self._head = head
        self._early = early
        self._detach = detach
        self._messages = asyncio.Queue(limits.messages_max)
        self._connect_given = False
        # No more messages come; and nothing can be sent any more.
        self._ended = asyncio.Event()
        self._gone = asyncio.Event()
        self._gone_with = (1006, "")
        self._streams = None
        self._pump = None
        self._close_sent = False
        self._peer_close = None
        self._leaving = False
        self.detached = False
        # A response of its own refuses; and it is complete.
        self._responding = False
        self.refused = False
        self.writer = writer
        # Called once, at the end; set by the caller.
        self.on_complete = lambda: None

    async def run(self):
        """Runs the application until it returns. Raises nothing."""
        code, reason = 1000, ""
        try:
            await self._application(self.scope, self._receive, self._send)
        except asyncio.CancelledError:
            code = 1001
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # Whatever it is, the connection ends.
            if not isinstance(error, Disconnected):
                log.failure(self._head)
                code, reason = 1011, "internal error"
        try:
            if self.detached:
                await self._close(code, reason)
            elif not self.refused and not self._gone.is_set():
                self._give_up(code)
            self.writer.finish()
        except (ClientGone, OSError):
            pass
        self._drop()
        self.on_complete()

    def cancel(self):
        """The client has gone, before the connection was taken over."""
        if not self.detached:
            self._part()
            self.writer.give_up()

    def leave(self):
        """The worker ends, after the connection was taken over."""
        self._leaving = True
        self._gone_with = (1001, "")
        if self._streams is not None:
            self._begin_close(*self._gone_with)
        self._part()

    def _part(self):
        self._ended.set()
        self._gone.set()

    async def _receive(self):
        if not self._connect_given:
            self._connect_given = True
            return {"type": "websocket.connect"}
        if self._messages.empty() and not self._ended.is_set():
            message = asyncio.ensure_future(self._messages.get())
            ended = asyncio.ensure_future(self._ended.wait())
            try:
                await asyncio.wait((message, ended), return_when=asyncio.FIRST_COMPLETED)
                if message.done():
                    return message.result()
            finally:
                message.cancel()
                ended.cancel()
        if not self._messages.empty():
            return self._messages.get_nowait()
        self._gone.set()
        code, reason = self._gone_with
        return {"type": "websocket.disconnect", "code": code, "reason": reason}

    async def _send(self, message):
        kind = message["type"]
        if self._gone.is_set() or self._close_sent:
            raise Disconnected("the client has gone")
        try:
            open_ = not (self.detached or self.refused or self._responding)
            if kind == "websocket.accept" and open_:
                await self._accept(message)
            elif kind == "websocket.close" and open_:
                self._refuse()
            elif kind == f"{_RESPONSE}.start" and open_:
                self._responding = True
                self.writer.start_response(*head_of(message, self.writer.headers))
            elif kind == f"{_RESPONSE}.body" and self._responding and not self.refused:
                await self._respond(message.get("body", b""), message.get("more_body", False))
            elif kind == "websocket.send" and self.detached:
                await self._send_message(message)
            elif kind == "websocket.close" and self.detached:
                await self._close(message.get("code", 1000), message.get("reason") or "")
            else:
                raise RuntimeError(f"{kind} is no message of this kind of request, or comes too late or too early")
        except (ClientGone, ConnectionError) as error:
            self._part()
            raise Disconnected("the client has gone") from error

    async def _accept(self, message):
        lines = [
            "HTTP/1.1 101 Switching Protocols",
            f"Date: {formatdate(usegmt=True)}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Accept: {websocket.accept_key(self._key).decode()}",
        ]
        subprotocol = message.get("subprotocol")
        if subprotocol is not None:
            lines.append(field_line("Sec-WebSocket-Protocol", subprotocol))
        fields = (*self.writer.headers, *(message.get("headers") or ()))
        if not (self.writer.anonymous or any(bytes(name).lower() == b"server" for name, _ in fields)):
            lines.append("Server: maitred")
        for name, value in fields:
            name = bytes(name).decode("latin-1")
            line = field_line(name, bytes(value).decode("latin-1"))
            if not concerns_the_connection(name):
                lines.append(line)
        await self.writer.write_out("\r\n".join([*lines, "", ""]).encode("latin-1"))
        self.detached = True
        connection = socket.socket(fileno=self._detach())
        self._streams = await asyncio.open_connection(sock=connection)
        self._pump = asyncio.ensure_future(self._read())
        if self._leaving:
            self._begin_close(*self._gone_with)

    async def _respond(self, body, more):
        if more:
            await self.writer.stream(bytes(body))
            return
        self.refused = True
        if self.writer.started:
            self.writer.write(bytes(body))
            self.writer.end()
        else:
            self.writer.whole(bytes(body))

    def _give_up(self, code):
        """The application has returned without a word of its own, or before its response was complete."""
        if code == 1011 or self._responding:
            self.writer.fail()
        else:
            self._refuse()

    def _refuse(self):
        status, headers, body = plain(403, b"403 Forbidden\n")
        self.refused = True
        self.writer.start_response(status, headers)
        self.writer.whole(body)

    async def _send_message(self, message):
        text, data = message.get("text"), message.get("bytes")
        if text is not None:
            frame = websocket.encode(websocket.TEXT, text.encode())
        else:
            frame = websocket.encode(websocket.BINARY, bytes(data))
        self._streams[1].write(frame)
        await self._streams[1].drain()

    async def _read(self):
        """Reads until the end of the connection, or of the protocol."""
        parser = websocket.Parser(self._limits.message_bytes_max)
        try:
            data = self._early
            while True:
                for opcode, payload in parser.feed(data):
                    if opcode == websocket.CLOSE:
                        await self._answer_close(*payload)
                        return
                    await self._take(opcode, payload)
                data = await self._more()
                if not data:
                    return
        except websocket.Violation as violation:
            self._gone_with = (violation.code, str(violation))
            self._begin_close(violation.code, str(violation))
        except OSError:
            pass
        finally:
            self._part()

    async def _more(self):
        """What comes next; nothing at the end."""
        for asked, seconds in ((False, self._limits.ping_s), (True, self._limits.pong_s)):
            try:
                return await asyncio.wait_for(self._streams[0].read(_READ_BYTES), seconds)
            except asyncio.TimeoutError:
                if not asked and not self._close_sent:
                    self._streams[1].write(websocket.encode(websocket.PING, b""))
        return b""

    async def _answer_close(self, code, reason):
        """What the application says until it receives that, and in short time, is still sent (RFC 6455, 5.5.1)."""
        self._gone_with = self._peer_close = (code, reason)
        self._ended.set()
        if not self._close_sent:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._gone.wait(), _CLOSE_S)
        self._begin_close(code, reason)

    async def _take(self, opcode, payload):
        if opcode == websocket.PING and not self._close_sent:
            self._streams[1].write(websocket.encode(websocket.PONG, payload))
            await self._streams[1].drain()
        elif opcode == websocket.TEXT and not self._close_sent:
            await self._messages.put({"type": "websocket.receive", "text": payload})
        elif opcode == websocket.BINARY and not self._close_sent:
            await self._messages.put({"type": "websocket.receive", "bytes": payload})

    def _begin_close(self, code, reason):
        if not self._close_sent:
            self._close_sent = True
            frame = websocket.encode(websocket.CLOSE, b"") if code == 1005 else websocket.encode_close(code, reason)
            self._streams[1].write(frame)

    async def _close(self, code, reason):
        """Says CLOSE, or answers it, and waits for the client's."""
        if self._peer_close is not None:
            code, reason = self._peer_close
        self._begin_close(code, reason)
        while not self._messages.empty():
            self._messages.get_nowait()
        self._part()
        await asyncio.wait((self._pump,), timeout=_CLOSE_S)

    def _drop(self):
        if self._pump is not None:
            self._pump.cancel()
        if self._streams is not None:
            self._streams[1].close()
