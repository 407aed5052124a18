"""A response: what the application says becomes bytes on the client's socket, framed as the request demands."""

import os
import re
import select
from email.utils import formatdate
from time import monotonic, time

from .channel import CLEAN, CLOSE, HEAD, HTTP10, KEEP

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_STATUS = re.compile(r"[2-9][0-9][0-9]( [^\x00-\x08\x0a-\x1f\x7f]*)?")
_HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")
)
# Up to here head and body are copied into one piece, which is cheaper than a vector.
_JOIN_BYTES_MAX = 16 * 1024
_CACHE_ENTRIES_MAX = 256
_CACHED_HEAD_BYTES_MAX = 1024
_CONNECTION = {
    KEEP: b"\r\n",
    KEEP | HTTP10: b"Connection: keep-alive\r\n\r\n",
    0: b"Connection: close\r\n\r\n",
    HTTP10: b"Connection: close\r\n\r\n",
}


class ClientGone(Exception):
    """The client has closed or lost its connection; nobody is to blame."""


class _Date:
    """The Date field, formatted once per second."""

    def __init__(self):
        self._line = b""
        self._until = 0.0

    def line(self):
        now = monotonic()
        if now >= self._until:
            wall = time()
            self._line = b"Date: %s\r\n" % formatdate(wall, usegmt=True).encode()
            self._until = now + 1 - wall % 1
        return self._line


_date = _Date()
_prepared_heads = {}


def _prepare(status, headers):
    """`(bytes, status, length, dated)`: status line and fields without framing, the status as a number, the
    Content-Length if the application stated one, and whether it stated a Date.

    Raises ValueError or TypeError for what may not be sent.
    """
    if not isinstance(status, str) or not _STATUS.fullmatch(status):
        raise ValueError(f"not a status of a response: {status!r}")
    number, space, reason = status.partition(" ")
    lines = [f"HTTP/1.1 {number} {reason}"]
    length, dated, server = None, False, False
    for name, value in headers:
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"a header field is not a pair of str: {name!r}: {value!r}")
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"not the name of a header field: {name!r}")
        if "\r" in value or "\n" in value or "\0" in value:
            raise ValueError(f"the value of {name} holds a line break or NUL: {value!r}")
        lower = name.lower()
        if lower in _HOP_BY_HOP:
            raise ValueError(f"{name} concerns the connection, which is not the application's")
        if lower == "content-length":
            if length is not None or not (value.isascii() and value.isdigit()):
                raise ValueError(f"a bad or second Content-Length: {value!r}")
            length = int(value)
            continue
        dated = dated or lower == "date"
        server = server or lower == "server"
        lines.append(f"{name}: {value}")
    if not server:
        lines.append("Server: maitred")
    lines.append("")
    return "\r\n".join(lines).encode("latin-1"), int(number), length, dated


def _prepared(status, headers):
    """As `_prepare`, which most applications need only for a few different heads."""
    try:
        key = (status, tuple(headers))
        found = _prepared_heads.get(key)
    except TypeError:  # Lists instead of tuples: allowed by no text, but seen.
        return _prepare(status, headers)
    if found is None:
        found = _prepare(status, headers)
        if len(found[0]) <= _CACHED_HEAD_BYTES_MAX:
            if len(_prepared_heads) >= _CACHE_ENTRIES_MAX:
                _prepared_heads.clear()
            _prepared_heads[key] = found
    return found


class Response:
    """One response. Afterwards `outcome` holds the flags of DONE, `status` and `body_bytes` what DONE says."""

    __slots__ = ("_descriptor", "_flags", "_head", "_left", "_chunked", "started", "outcome", "status", "body_bytes")

    def __init__(self, descriptor, flags):
        self._descriptor = descriptor
        self._flags = flags
        self._head = None
        self._left = None
        self._chunked = False
        self.started = False
        self.outcome = 0
        self.status = 0
        self.body_bytes = 0

    def start_response(self, status, headers, exc_info=None):
        """As PEP 3333 says."""
        if exc_info:
            try:
                if self.started:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        elif self._head is not None:
            raise RuntimeError("start_response was called a second time without exc_info")
        self._head = _prepared(status, headers)
        return self.write

    def whole(self, body):
        """The response is complete with this body, and nothing of it was sent before."""
        prefix, status, length, dated = self._stated()
        body_bytes = len(_checked(body))
        if self._flags & HEAD or status == 204 or status == 304:
            if length is None and body_bytes and self._flags & HEAD and status not in (204, 304):
                length = body_bytes
            self._send(self._head_bytes(_length_line(status, length)))
            self.outcome = CLEAN
            return
        if length is None:
            length = body_bytes
        elif body_bytes > length:
            body = body[:length]
        head = self._head_bytes(b"Content-Length: %d\r\n" % length)
        if body_bytes <= _JOIN_BYTES_MAX:
            self._send(head + body)
        else:
            self._send_vector([head, body])
        self.body_bytes = min(body_bytes, length)
        if body_bytes < length:
            raise ValueError(f"the application wrote {body_bytes} bytes of the {length} that it stated")
        self.outcome = CLEAN
        if body_bytes > length:
            raise ValueError(f"the application wrote {body_bytes} bytes, but stated {length}")

    def write(self, data):
        """A piece of the body, sent at once; also what start_response returns."""
        if not _checked(data):
            return
        head = b"" if self.started else self._begin()
        if self._flags & HEAD or self.status == 204 or self.status == 304:
            if head:
                self._send(head)
            return
        if self._left is not None:
            over = len(data) - self._left
            if over > 0:
                data = data[: self._left]
            self._left -= len(data)
            self._send_vector([head, data])
            self.body_bytes += len(data)
            if over > 0:
                raise ValueError("the application writes more bytes than it stated")
            return
        if self._chunked:
            self._send_vector([head + b"%x\r\n" % len(data), data, b"\r\n"])
        else:
            self._send_vector([head, data])
        self.body_bytes += len(data)

    def end(self):
        """All pieces were written."""
        if not self.started:
            self.whole(b"")
        elif self._flags & HEAD or self.status == 204 or self.status == 304:
            self.outcome = CLEAN
        elif self._left is not None:
            if self._left:
                raise ValueError(f"the application did not write {self._left} of the bytes that it stated")
            self.outcome = CLEAN
        elif self._chunked:
            self._send(b"0\r\n\r\n")
            self.outcome = CLEAN
        else:
            self.outcome = CLOSE

    def fail(self):
        """The application failed: 500 if nothing was sent yet, otherwise the response stays broken."""
        if not self.started:
            self._head = _prepared("500 Internal Server Error", [("Content-Type", "text/plain")])
            self.whole(b"500 Internal Server Error\n")

    def _stated(self):
        if self._head is None:
            raise RuntimeError("the application did not call start_response")
        return self._head

    def _begin(self):
        """Chooses the framing of a body that comes in pieces; returns the head."""
        _, status, length, _ = self._stated()
        self._left = length
        if self._flags & HEAD or status == 204 or status == 304:
            return self._head_bytes(_length_line(status, length))
        if length is not None:
            return self._head_bytes(b"Content-Length: %d\r\n" % length)
        if self._flags & HTTP10:
            self._flags &= ~KEEP
            return self._head_bytes(b"")
        self._chunked = True
        return self._head_bytes(b"Transfer-Encoding: chunked\r\n")

    def _head_bytes(self, framing):
        """The complete head; from here on the response counts as started."""
        prefix, self.status, _, dated = self._head
        self.started = True
        connection = _CONNECTION[self._flags & (KEEP | HTTP10)]
        if dated:
            return prefix + framing + connection
        return prefix + _date.line() + framing + connection

    def _send(self, data):
        try:
            sent = os.write(self._descriptor, data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise ClientGone from error
        if sent < len(data):
            self._send_slowly(memoryview(data)[sent:])

    def _send_vector(self, pieces):
        total = sum(map(len, pieces))
        if total <= _JOIN_BYTES_MAX:
            self._send(b"".join(pieces))
            return
        try:
            sent = os.writev(self._descriptor, pieces)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise ClientGone from error
        if sent == total:
            return
        for piece in pieces:
            if sent < len(piece):
                self._send_slowly(memoryview(piece)[sent:])
                sent = 0
            else:
                sent -= len(piece)

    def _send_slowly(self, rest):
        """Waits for room as often as it takes. Maitred ends a wait that is too long by shutting the socket down."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                poll.poll()
            except OSError as error:
                raise ClientGone from error


def _checked(data):
    if not isinstance(data, bytes):
        raise TypeError(f"the application wrote {type(data).__name__}, not bytes")
    return data


def _length_line(status, length):
    """For responses without a body: the length that GET would have had, which 204 must not state (9110-8.6)."""
    return b"" if length is None or status == 204 else b"Content-Length: %d\r\n" % length
