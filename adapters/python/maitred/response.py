"""A response of a WSGI application: what it says becomes bytes on the response descriptor, and a tail for Maitred."""

import os

from .frames import CLEAN, CLOSE, HTTP10, KEEP
from .environ import meta_of
from .head import ANONYMOUS, INFORMATIONAL_MAX, informational, is_anonymous, prepare, prepared
from .sendfile import INLINE_BYTES_MAX, open_below, read_all
from .tail import ClientGone, Tail

# Up to here head and body are copied into one piece, which is cheaper than a vector.
_JOIN_BYTES_MAX = 16 * 1024


class Response:
    """One response. Afterwards `outcome` holds the flags of DONE, `status` and `body_bytes` what DONE says."""

    __slots__ = (
        "_channel", "_connection", "_request", "_descriptor", "_flags", "_meta", "_root", "_head", "_left", "_chunked",
        "_bodiless", "_tail", "_informed", "started", "outcome", "status", "body_bytes",
    )  # fmt: skip

    # Whether a client that reads too slowly may block the writer.
    _may_wait = True
    # What the head says of a body in chunks, and how that ends.
    _coding = b"Transfer-Encoding: chunked\r\n"
    _last_chunk = b"0\r\n\r\n"

    def __init__(self, channel, connection, request, descriptor, flags, meta):
        self._channel = channel
        self._connection = connection
        self._request = request
        self._descriptor = descriptor
        self._flags = flags
        self._meta = meta
        # Below which X-Sendfile names files; known once it is needed.
        self._root = None
        self._head = None
        self._left = None
        self._chunked = False
        self._bodiless = False
        self._tail = None
        # How many informational responses there were.
        self._informed = 0
        self.started = False
        self.outcome = 0
        self.status = 0
        self.body_bytes = 0

    @property
    def anonymous(self):
        """Whether it has no Server if the application sets none."""
        return is_anonymous(self._meta)

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
        # Of bytes, `find` is cheaper than `in`, which asks first whether it was given a number.
        head = prepared(status, headers, self._meta.find(ANONYMOUS) >= 0 and self.anonymous)
        if head.sendfile is not None:
            head = self._named(head, status, headers)
        self._head = head
        return self.write

    def _named(self, head, status, headers):
        """A head that has X-Sendfile: without a root it is a field as any other."""
        self._root = meta_of(self._meta).get("sendfile_root")
        if not self._root:
            return head._replace(sendfile=None)
        others = [(name, value) for name, value in headers if name.lower() != "x-sendfile"]
        return prepare(status, others, self.anonymous)._replace(sendfile=head.sendfile)

    def go_on(self, informed, tail):
        """Goes on with a response of which there were so many informational ones, and what the socket has not taken of them."""
        self._informed, self._tail = informed, tail

    def hint(self, headers):
        """103 Early Hints, for clients that may have them; what would come too late, or is too much, is dropped. It is what
        `wsgi.early_hints` is."""
        head = self._hint(headers)
        # What iterates over the fields is the application's: by now the response may have begun.
        if head and not self.started:
            self._send(head)

    def ask_for_body(self):
        """100 Continue, if the response has not begun. Raises ClientGone and OSError."""
        if not self.started:
            self._send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _hint(self, headers):
        if self.started or self._informed >= INFORMATIONAL_MAX:
            return b""
        self._informed += 1
        return informational("103 Early Hints", headers)

    def whole(self, body):
        """The response is complete with this body, and nothing of it was sent before."""
        head = self._stated()
        body_bytes = len(_checked(body))
        if head.sendfile is not None:
            self._send_named_file()
            return
        length = head.length
        if head.bodiless(self._flags):
            if length is None and body_bytes and head.status not in (204, 304):
                head = head._replace(length=body_bytes)
            self._send(self._begin_head(head.length_line()))
            self.outcome = CLEAN
            return
        if length is None:
            length = body_bytes
        elif body_bytes > length:
            body = body[:length]
        lines = self._begin_head(b"Content-Length: %d\r\n" % length)
        if body_bytes <= _JOIN_BYTES_MAX:
            self._send(lines + body)
        else:
            self._send_vector([lines, body], last=True)
        self.body_bytes = min(body_bytes, length)
        if body_bytes < length:
            raise ValueError(f"the application wrote {body_bytes} bytes of the {length} that it stated")
        self.outcome = CLEAN
        if body_bytes > length:
            raise ValueError(f"the application wrote {body_bytes} bytes, but stated {length}")

    def file(self, descriptor, offset, file_bytes):
        """The response is complete with a part of a file, and nothing of it was sent before. If a length was stated, it
        counts, otherwise `file_bytes`, which are up to the end of the file."""
        head = self._stated()
        length = file_bytes if head.length is None else head.length
        if head.bodiless(self._flags):
            self._send(self._begin_head(head._replace(length=length).length_line()))
            self.outcome = CLEAN
            return
        if length > file_bytes:
            raise ValueError(f"the file has {file_bytes} bytes of the {length} that the application stated")
        data = read_all(descriptor, offset, length) if length <= INLINE_BYTES_MAX else None
        lines = self._begin_head(b"Content-Length: %d\r\n" % length)
        if data is not None:
            self._send_vector([lines, data], last=True)
        else:
            self._send(lines)
            self._ensure_tail().file(descriptor, offset, length)
        self.body_bytes = length
        self.outcome = CLEAN

    def write(self, data):
        """A piece of the body, sent at once; also what start_response returns."""
        if not _checked(data):
            return
        head = b"" if self.started else self._begin()
        if self._bodiless:
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
        elif self._bodiless:
            self.outcome = CLEAN
        elif self._left is not None:
            if self._left:
                raise ValueError(f"the application did not write {self._left} of the bytes that it stated")
            self.outcome = CLEAN
        elif self._chunked:
            self._send(self._last_chunk)
            self.outcome = CLEAN
        else:
            self.outcome = CLOSE

    def fail(self):
        """The application failed: 500 if nothing was sent yet, otherwise the response stays broken."""
        if not self.started:
            fields = [("Content-Type", "text/plain")]
            self._head = prepared("500 Internal Server Error", fields, self.anonymous)
            self.whole(b"500 Internal Server Error\n")

    def give_away(self):
        """The application writes to the descriptor by itself: what it says here as well has nowhere to go."""
        self._descriptor = -1
        self._tail = _Nowhere()

    def finish(self):
        """Leaves the rest to Maitred, if there is one. Raises ClientGone and OSError."""
        if self._tail is not None:
            self._tail.end()

    def _stated(self):
        if self._head is None:
            raise RuntimeError("the application did not call start_response")
        return self._head

    def _begin(self):
        """Chooses the framing of a body that comes in pieces; returns the head."""
        head = self._stated()
        if head.sendfile is not None:
            self._send_named_file()
            # What else is written has nowhere to go.
            self._bodiless = True
            return b""
        self._left = head.length
        if head.bodiless(self._flags):
            self._bodiless = True
            return self._begin_head(head.length_line())
        if head.length is not None:
            return self._begin_head(b"Content-Length: %d\r\n" % head.length)
        if self._flags & HTTP10:
            self._flags &= ~KEEP
            return self._begin_head(b"")
        self._chunked = True
        return self._begin_head(self._coding)

    def _begin_head(self, framing):
        """The complete head; from here on the response counts as started."""
        self.status = self._head.status
        self.started = True
        return self._head.bytes(framing, self._flags)

    def _send_named_file(self):
        """X-Sendfile: the file is the body, its size the length, whatever else was stated."""
        descriptor, file_bytes = open_below(self._head.sendfile, self._root)
        try:
            self._head = self._head._replace(length=None, sendfile=None)
            self.file(descriptor, 0, file_bytes)
        finally:
            os.close(descriptor)

    def _send(self, data):
        if self._tail is None:
            try:
                sent = os.write(self._descriptor, data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                raise ClientGone from error
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
        self._ensure_tail().write(data)

    def _send_vector(self, pieces, last=False):
        """`last` says that nothing follows."""
        total = sum(map(len, pieces))
        if total <= _JOIN_BYTES_MAX:
            self._send(b"".join(pieces))
            return
        sent = 0
        if self._tail is None:
            try:
                sent = os.writev(self._descriptor, pieces)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                raise ClientGone from error
            if sent == total:
                return
        tail = self._ensure_tail()
        for piece in pieces:
            if sent < len(piece):
                if last and piece is pieces[-1]:
                    tail.last(piece, sent, len(piece))
                else:
                    tail.write(memoryview(piece)[sent:])
                sent = 0
            else:
                sent -= len(piece)

    def _ensure_tail(self):
        if self._tail is None:
            self._tail = Tail(self._channel, self._connection, self._request, self._descriptor, self._may_wait)
        return self._tail


def _checked(data):
    if not isinstance(data, bytes):
        raise TypeError(f"the application wrote {type(data).__name__}, not bytes")
    return data


class _Nowhere:
    """Stands for a Tail, and forgets everything."""

    def write(self, data):
        pass

    def last(self, data, start, end):
        pass

    def file(self, descriptor, offset, length):
        pass

    def end(self):
        pass
