"""One HTTP request of an ASGI application: scope, receive and send (asgi.readthedocs.io, HTTP, version 2.4)."""

import asyncio
import contextlib
import os
from http import HTTPStatus
from urllib.parse import unquote_to_bytes

from . import log
from .environ import address_of, meta_of
from .frames import HTTP10
from .head import prepared
from .response import Response
from .sendfile import open_regular
from .tail import ClientGone
from .trailers import Trailers, announced, can_follow

# Pieces in which a body that comes in a file is given to the application.
_BODY_PIECE_BYTES = 256 * 1024
# Turns of the event loop in which a task that has received the client's end can cancel the one that sends.
_TURNS = 10
# Names of extensions, and of their messages.
EARLY_HINT = "http.response.early_hint"
PATHSEND = "http.response.pathsend"
TRAILERS = "http.response.trailers"
# A key of PATHSEND of this package's own: (descriptor, offset, bytes) of what is sent of the file; it stays the sender's.
REGION = "maitred.region"
# Who the user is, if Maitred has found it out: {"user": NAME, "auth_type": "Basic", "Bearer" or "forward_auth"}.
IDENTITY = "maitred.identity"
PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Disconnected(OSError):
    """Raised by `send` when the client has gone."""


def scope_of(meta, head, flags):
    """What scopes of HTTP and WebSocket have in common, from the bytes of a REQUEST."""
    values = meta_of(meta)
    first, *fields = head[:-4].split(b"\r\n")
    method, target, _ = first.split(b" ")
    raw_path, _, query = target.partition(b"?")
    mount = values.get("mount", "")
    path = unquote_to_bytes(raw_path).decode("utf-8", "replace")
    below = path.startswith(mount) and path[len(mount) : len(mount) + 1] in ("", "/")
    return {
        # 2.4 would promise that `send` fails when the client has gone. Starlette then does not listen for `http.disconnect`,
        # and a stream that has nothing to send would never notice it. uvicorn and hypercorn say 2.3 as well.
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.0" if flags & HTTP10 else "1.1",
        "method": method.decode("latin-1"),
        "scheme": values.get("scheme", "http"),
        "path": path,
        "raw_path": raw_path,
        "query_string": query,
        "root_path": mount if below else "",
        "headers": [tuple(field.split(b": ", 1)) for field in fields],
        "client": _address(values.get("remote")),
        "server": _address(values.get("local")),
        "extensions": _extensions(values),
    }


def _extensions(values):
    found = {}
    if values.get("early_hints") == "1":
        found[EARLY_HINT] = {}
    if values.get("trailers") == "1":
        found[TRAILERS] = {}
    if values.get("user"):
        found[IDENTITY] = {"user": values["user"], "auth_type": values.get("auth_type", "")}
    return found


def _address(text):
    if not text:
        return None
    host, port = address_of(text)
    return host, int(port) if port.isdigit() else None


class Writer(Response):
    """A response whose pieces are collected, and awaited, while more are to come; the last one is left to Maitred if the
    socket is full."""

    # The event loop is others', too.
    _may_wait = False

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._collected = None
        # What is left of a piece whose task was cancelled while it waited: it belongs before everything that follows.
        self._unsent = b""
        self._waiter = None
        # Pairs of bytes that come before the application's own fields.
        self.headers = ()
        # The length that the application has stated of a body in chunks.
        self._promised = None

    def _send(self, data):
        if self._collected is None:
            unsent, self._unsent = self._unsent, b""
            super()._send(unsent + data if unsent else data)
        else:
            self._collected.append(data)

    def _send_vector(self, pieces, last=False):
        if self._collected is None:
            unsent, self._unsent = self._unsent, b""
            super()._send_vector([unsent, *pieces] if unsent else pieces, last)
        else:
            self._collected += pieces

    async def stream(self, data):
        """A piece that more will follow, written when this returns. Raises ClientGone."""
        if self._collected is not None:
            raise RuntimeError("send was called while another call of it was waiting")
        begin = not self.started and not data
        if not self.started and self._stated().sendfile is not None:
            self._begin()
            return
        self._collected = []
        try:
            if begin:
                # The application wants its head to be seen now.
                self._send(self._begin())
            over = None
            try:
                self.write(data)
            except ValueError as error:
                # What was stated of it is sent first.
                over = error
            await self.write_out(b"".join(self._collected))
            if over is not None:
                raise over
        finally:
            self._collected = None

    def adopt(self, left, body_bytes, unsent):
        """Goes on with a response whose head was sent, and so many bytes of its body: `left` more follow, or chunks if that is
        None. `unsent` is what the socket has not taken yet."""
        self.started, self.status = True, self._head.status
        self._left, self._chunked = left, left is None
        self.body_bytes, self._unsent = body_bytes, unsent or b""

    async def ask(self):
        """100 Continue, if the response has not begun. Raises ClientGone."""
        if not self.started and self._collected is None:
            await self.write_out(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def inform(self, headers):
        """103 Early Hints. Raises ClientGone."""
        if self._collected is not None:
            raise RuntimeError("send was called while another call of it was waiting")
        await self.write_out(self._hint(headers))

    def start_with_trailers(self, status, headers):
        """`start_response`, if trailers are to follow; returns whether they can. Then the body comes in chunks, whatever length was
        stated, and ends by `end_with`."""
        headers, names = announced(headers)
        self.start_response(status, headers)
        head = self._head
        if head.sendfile is not None or not can_follow(meta_of(self._meta), self._flags, head.status):
            return False
        self._coding += names
        self._promised, self._head = head.length, head._replace(length=None)
        return True

    def leave_trailers(self):
        """There can be none after all: `start_with_trailers` counts as `start_response`."""
        self._head = self._head._replace(length=self._promised)

    def end_with(self, trailers):
        """All pieces were written, and this follows them."""
        if self._promised not in (None, self.body_bytes):
            raise ValueError(f"the application wrote {self.body_bytes} bytes, but stated {self._promised}")
        self._last_chunk = b"0\r\n%b\r\n" % trailers
        self.end()

    def send_head(self):
        """The head by itself, because the body takes its time. Raises ClientGone."""
        if self.started or self._collected is not None or self._stated().sendfile is not None:
            return
        head, self._unsent = self._unsent + self._begin(), b""
        try:
            head = head[os.write(self._descriptor, head) :]
        except BlockingIOError:
            pass
        except OSError as error:
            raise ClientGone from error
        self._unsent = head

    async def write_out(self, data):
        """Bytes as they are. Raises ClientGone."""
        rest = memoryview(self._unsent + data if self._unsent else data)
        self._unsent = b""
        try:
            while rest:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:
                    await self._writable()
        except OSError as error:
            raise ClientGone from error
        except asyncio.CancelledError:
            self._unsent = bytes(rest)
            raise

    def give_up(self):
        """Ends a wait: the client has gone."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ClientGone())

    def disown(self):
        """The descriptor is about to be closed, and its number may be another connection's then: it is not used any more."""
        if self._waiter is not None:
            asyncio.get_running_loop().remove_writer(self._descriptor)
        self.give_up()
        self._descriptor = -1
        if self._tail is not None:
            self._tail.disown()

    async def _writable(self):
        loop, descriptor = asyncio.get_running_loop(), self._descriptor
        waiter = self._waiter = loop.create_future()
        loop.add_writer(descriptor, lambda: waiter.done() or waiter.set_result(None))
        try:
            await waiter
        finally:
            if self._descriptor == descriptor:
                loop.remove_writer(descriptor)
            self._waiter = None


def head_of(message, more=()):
    """Arguments of start_response for `http.response.start`; `more` are fields in front of its own. Raises ValueError, TypeError
    or KeyError."""
    status = message["status"]
    pairs = (*more, *message.get("headers", ()))
    headers = [(bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in pairs]
    return f"{status:d} {PHRASES.get(status, '')}", headers


class _End(asyncio.Event):
    """That the client has gone, or the response is complete."""

    def __init__(self):
        super().__init__()
        # Of those who have waited since before this object was there.
        self.futures = ()

    def set(self):
        """It is so."""
        super().set()
        for future in self.futures:
            if not future.done():
                future.set_result(None)
        self.futures = ()


class Http:
    """One request that runs."""

    def __init__(self, application, scope, head, body, body_file, writer, late_heads, streamed=None):
        self._late_heads = late_heads
        self._application = application
        self.scope = scope
        self._head = head
        self._body = body
        self._body_file = body_file
        self._body_at = 0
        # A streamed.AsyncBody, if the body is still to come.
        self._streamed = streamed
        self._body_given = False
        self._gone = _End()
        self._complete = False
        self._told = False
        # Those that are to follow the body; and whether some are announced that the client does not get.
        self._trailers = None
        self._drops_trailers = False
        self._body_over = False
        # Held by the task that sends a piece; there is none before the first one that more will follow.
        self._sending = None
        self.writer = writer
        # Called once, when the response is complete or aborted; set by the caller.
        self.on_complete = lambda: None

    async def run(self):
        """Runs the application until it returns, which may be long after its response. Raises nothing."""
        try:
            await self._application(self.scope, self._receive, self._send)
            if not self._complete and not self._gone.is_set():
                raise RuntimeError("the application returned before its response was complete")
        except asyncio.CancelledError:
            pass  # The whole worker ends.
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # Whatever it is, the request ends.
            if not is_about_the_client(error):
                log.failure(self._head)
                self._fail()
        self._tell()
        if self._body_file is not None:
            os.close(self._body_file)

    @property
    def over(self):
        """Whether there is nothing left to be sent."""
        return self._complete or self._gone.is_set()

    def go_on(self, start, body_given, begun, left, body_bytes, unsent, gone):
        """Goes on with a request that has run elsewhere so far. `start` is the message of its head, if there was one; `begun` says
        whether that was sent, and then the rest is as Writer.adopt has it."""
        self._body_given = body_given
        if gone:
            self._gone.set()
        if start is None:
            return
        self._start(start)
        if begun:
            self.writer.adopt(left, body_bytes, unsent)
        else:
            self._late_heads.add(self)

    def take_waiters(self, futures):
        """Those who wait for the client's end wait here from now on."""
        self._gone.futures = futures
        if self._gone.is_set():
            self._gone.set()

    async def drain(self):
        """Until the socket has taken what it had no room for."""
        try:
            async with self._turns():
                await self.writer.write_out(b"")
        except ClientGone:
            self._gone.set()
            await after_the_end()

    def _tell(self):
        """The response is complete, or nothing more will come of it. What the application does from now on delays no request."""
        if self._told:
            return
        self._told = self._complete = True
        self._late_heads.discard(self)
        self._stop_reading()
        self._gone.set()
        try:
            self.writer.finish()
        except ClientGone:
            self.writer.outcome = 0
        except OSError:
            self.writer.outcome = 0
            log.failure(self._head)
        self.on_complete()

    def cancel(self):
        """The client has gone."""
        self._stop_reading()
        self._gone.set()
        self.writer.give_up()

    def send_head(self):
        """Nothing of the body has come for a while. Raises nothing."""
        if self._complete or self._gone.is_set():
            return
        try:
            self.writer.send_head()
        except ClientGone:
            self._gone.set()

    def _fail(self):
        try:
            if not self._gone.is_set():
                self.writer.fail()
        except ClientGone:
            pass
        except OSError:
            log.failure(self._head)

    async def _receive(self):
        if not self._body_given and not self._complete and not self._gone.is_set():
            if self._streamed is None:
                return self._next_piece()
            with contextlib.suppress(ClientGone):
                body = await self._streamed.piece()
                self._body_given = self._streamed.done
                return {"type": "http.request", "body": body, "more_body": not self._body_given}
            if not self._complete:
                # What is still sent has nobody to go to.
                self.cancel()
        await self._gone.wait()
        return {"type": "http.disconnect"}

    def _stop_reading(self):
        if self._streamed is not None:
            self._streamed.close()

    def _next_piece(self):
        if self._body_file is None:
            body, self._body = self._body, b""
        else:
            body = os.pread(self._body_file, _BODY_PIECE_BYTES, self._body_at)
            self._body_at += len(body)
        # A file ends with an empty piece.
        more = self._body_file is not None and bool(body)
        self._body_given = not more
        return {"type": "http.request", "body": body, "more_body": more}

    async def _send(self, message):
        kind = message["type"]
        if kind == TRAILERS and self._drops_trailers:
            self._drops_trailers = message.get("more_trailers", False)
            return
        if self._gone.is_set():
            await after_the_end()
        try:
            if self._complete:
                raise RuntimeError(f"{kind} after the response was complete")
            if kind == "http.response.start":
                self._start(message)
                self._late_heads.add(self)
            elif kind == "http.response.body":
                await self._send_body(message.get("body", b""), message.get("more_body", False))
            elif kind == TRAILERS and self._body_over:
                self._send_trailers(message)
            elif kind == EARLY_HINT:
                await self._send_hint(message["links"])
            elif kind == PATHSEND and PATHSEND in self.scope["extensions"]:
                self._send_path(message)
            else:
                raise RuntimeError(f"{kind} is no message of this kind of request")
        except ClientGone:
            self._gone.set()
            await after_the_end()

    def _start(self, message):
        status, headers = head_of(message, self.writer.headers)
        if not message.get("trailers", False):
            self.writer.start_response(status, headers)
        elif self.writer.start_with_trailers(status, headers):
            self._trailers = Trailers()
        else:
            self._drops_trailers = True

    async def _send_body(self, body, more):
        self._late_heads.discard(self)
        body = bytes(body)
        # With trailers to come, the last piece is not the end.
        follows = more or self._trailers is not None
        if follows or self._sending is not None:
            async with self._turns():
                if self._complete or self._body_over:
                    raise RuntimeError("http.response.body after the response was complete")
                if follows:
                    await self.writer.stream(body)
                    self._body_over = not more
                else:
                    self._send_last(body)
            return
        self._send_last(body)

    def _turns(self):
        """Tasks of one application that send at the same time (events, and a ping) have their turns."""
        if self._sending is None:
            self._sending = asyncio.Lock()
        return self._sending

    def _send_last(self, body):
        # Whatever happens now, nothing may be added.
        self._complete = True
        if self.writer.started:
            self.writer.write(body)
            self.writer.end()
        else:
            self.writer.whole(body)
        self._tell()

    def _send_trailers(self, message):
        self._trailers.add(message["headers"])
        if message.get("more_trailers", False):
            return
        self._complete = True
        self.writer.end_with(self._trailers.section())
        self._tell()

    async def _send_hint(self, links):
        if EARLY_HINT in self.scope["extensions"]:
            await self.writer.inform([(b"link", bytes(link)) for link in links])

    def _send_path(self, message):
        self._late_heads.discard(self)
        if self.writer.started:
            raise RuntimeError(f"{PATHSEND} behind a part of the body")
        self._complete = True
        if self._trailers is not None:
            # A file has a length, which is sent to the client.
            self.writer.leave_trailers()
            self._drops_trailers = True
        region = message.get(REGION)
        if region is not None:
            self.writer.file(*region)
        else:
            descriptor, file_bytes = open_regular(message["path"])
            try:
                self.writer.file(descriptor, 0, file_bytes)
            finally:
                os.close(descriptor)
        self._tell()


async def after_the_end():
    """Raises Disconnected. First those that listen for `http.disconnect` receive it, and end the task that sends: what is raised in
    that would be the application's failure."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    raise Disconnected("the client has gone")


def is_about_the_client(error):
    """Whether an exception is, or comes from, the client's going away."""
    seen = 0
    while error is not None and seen < 20:
        if isinstance(error, (Disconnected, ClientGone)):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


def plain(status, text):
    """Status and headers for start_response, and body, of a response that is not the application's."""
    return f"{status} {PHRASES[status]}", [("Content-Type", "text/plain")], text
