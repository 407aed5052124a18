"""Bodies of requests that come while the application runs: on the response descriptor (PROTOCOL.md, "Bodies on the response
descriptor")."""

import asyncio
import io
import os
import re
import select

from .environ import meta_of
from .tail import ClientGone

# Bytes that are read at a time.
PIECE_BYTES = 64 * 1024
# Of a chunk's first line, and of all lines behind the last chunk.
_LINE_BYTES_MAX = 32
_TRAILER_BYTES_MAX = 8192 + 2
_SIZE = re.compile(rb"[0-9a-f]{1,16}\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: ([0-9]+)\r\n")


class BodyLost(ClientGone, ConnectionResetError):
    """The body has ended before it was whole: the client, or Maitred, has broken it off."""


class _Sized:
    """A body whose length is known."""

    def __init__(self, length):
        self._left = length
        self.done = not length

    def wanted(self):
        """How many bytes may be read."""
        return min(self._left, PIECE_BYTES)

    def feed(self, data):
        """What of the bytes is content."""
        self._left -= len(data)
        self.done = not self._left
        return data


class _Chunked:
    """A body in chunks (RFC 9112, section 7.1), with nothing behind it."""

    def __init__(self):
        self._line = b""
        # Bytes that are left of a chunk and of the line end behind it.
        self._left = 0
        self._trailer_bytes = None
        self.done = False

    def wanted(self):
        """How many bytes may be read."""
        return PIECE_BYTES

    def feed(self, data):
        """What of the bytes is content. Raises BodyLost for what are no chunks."""
        found, at = [], 0
        while at < len(data) and not self.done:
            if self._left:
                piece = data[at : at + self._left]
                at += len(piece)
                self._left -= len(piece)
                # The last two bytes are the end of the line.
                content = len(piece) - max(0, 2 - self._left)
                if content > 0:
                    found.append(piece[:content])
                continue
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end + 1
            self._line += data[at:end]
            at = end
            if self._trailer_bytes is not None:
                self._take_trailer()
            elif len(self._line) > _LINE_BYTES_MAX:
                raise BodyLost("a body in chunks has a line that is none of theirs")
            elif self._line.endswith(b"\n"):
                self._take_size()
        return found[0] if len(found) == 1 else b"".join(found)

    def _take_size(self):
        if not _SIZE.fullmatch(self._line):
            raise BodyLost("a body in chunks has a line that is none of theirs")
        size, self._line = int(self._line, 16), b""
        if size:
            self._left = size + 2
        else:
            self._trailer_bytes = 0

    def _take_trailer(self):
        """What came behind the body has no place in the interfaces."""
        if self._trailer_bytes + len(self._line) > _TRAILER_BYTES_MAX:
            raise BodyLost("too much comes behind a body in chunks")
        if self._line.endswith(b"\n"):
            self._trailer_bytes += len(self._line)
            self.done, self._line = self._line == b"\r\n", b""


class _Body:
    """What both kinds of readers have in common."""

    def __init__(self, descriptor, meta, head):
        self._descriptor = descriptor
        length = _LENGTH.search(head)
        self._coding = _Chunked() if length is None else _Sized(int(length[1]))
        # Whether the client sends nothing before it is asked.
        self._asks = meta_of(meta).get("continue") == "1"

    @property
    def done(self):
        """Whether all of it has been read."""
        return self._coding.done

    def _asked(self):
        """True once, if the client has to be asked."""
        asks, self._asks = self._asks, False
        return asks

    def _read(self, limit=PIECE_BYTES):
        """What is there of the content; empty if that was framing. Raises BlockingIOError and BodyLost."""
        try:
            data = os.read(self._descriptor, min(self._coding.wanted(), limit))
        except BlockingIOError:
            raise
        except OSError as error:
            raise BodyLost("the body was broken off") from error
        if not data:
            raise BodyLost("the body has ended before it was whole")
        return self._coding.feed(data)


class StreamedBody(_Body, io.RawIOBase):
    """`wsgi.input` of such a body, for a BufferedReader. `ask()` writes 100 Continue, `before_wait()` is called before it waits."""

    def __init__(self, descriptor, meta, head, ask, before_wait):
        _Body.__init__(self, descriptor, meta, head)
        self._ask = ask
        self._before_wait = before_wait
        self._rest = b""

    def readable(self):
        return True

    def readinto(self, buffer):
        if not self._rest and not self.done and self._asked():
            self._ask()
        while not self._rest and not self.done:
            try:
                self._rest = self._read()
            except BlockingIOError:
                self._before_wait()
                poll = select.poll()
                poll.register(self._descriptor, select.POLLIN)
                # Its end is not far: Maitred bounds how long a client may take, and shuts the descriptor down.
                poll.poll()
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


class AsyncBody(_Body):
    """Such a body on an event loop. `ask()` is awaited, and writes 100 Continue."""

    def __init__(self, descriptor, meta, head, ask):
        super().__init__(descriptor, meta, head)
        self._ask = ask
        self._waiter = None
        self._closed = False

    async def piece(self):
        """The next piece of the content, empty only at its end. Raises BodyLost, also when `close` was called."""
        if not self.done and self._asked():
            await self._ask()
        while not self.done:
            if self._closed:
                raise BodyLost("the request is over")
            try:
                content = self._read()
            except BlockingIOError:
                await self._readable()
                continue
            if content:
                return content
        return b""

    def close(self):
        """The descriptor is not read any more."""
        self._closed = True
        if self._waiter is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            if not self._waiter.done():
                self._waiter.set_result(None)

    async def _readable(self):
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        loop.add_reader(self._descriptor, lambda: waiter.done() or waiter.set_result(None))
        try:
            await waiter
        finally:
            self._waiter = None
            if not self._closed:
                loop.remove_reader(self._descriptor)
