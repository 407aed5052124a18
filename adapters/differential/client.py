"""A client that sees every byte of a response. Standard library only."""

import socket
import time

from observation import Failure, Fields, digest, expect, joined

# Nothing here takes long; this only bounds how long a broken server can hold a run up.
DEADLINE_S = 60
_RECEIVE_BYTES = 256 * 1024
_HEAD_BYTES_MAX = 256 * 1024
_BODILESS = (204, 304)


class Response(Fields):
    """One response as the client saw it.

    `end` says how its body ended: "complete" (by length, chunks, or because there is none), "closed" (by the end of the
    connection, which was announced by the lack of framing) or "cut" (before its framing said so).
    """

    def __init__(self, version, status, reason, fields, body, end):
        self.version, self.status, self.reason = version, status, reason
        self.fields, self.body, self.end = fields, body, end


def observed(response):
    """What is compared of a response: names to texts. Large bodies are compared by their hash."""
    found = {
        "version": response.version,
        "status": str(response.status),
        "reason": response.reason,
        "end": response.end,
        "body": _shown(response.body),
    }
    for name in dict(response.fields):
        values = response.all(name)
        found[name] = "present" if name == "date" and len(values) == 1 else joined(values)
    return found


def _shown(body):
    return repr(body) if len(body) <= 1000 else digest(body)


class Connection:
    """One connection to a server."""

    def __init__(self, address, receive_buffer_bytes=None):
        self.socket = socket.socket()
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(DEADLINE_S)
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = b""
        self.piece_bytes, self.pause_s = _RECEIVE_BYTES, 0.0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        """All of it. A server that answers and closes before it has everything is no error: its answer is read."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def response(self, method="GET"):
        """The next response; interim ones (100) are passed over. Raises Failure."""
        while True:
            version, status, reason, fields = self._head()
            if status >= 200 or status == 101:
                break
        names = dict(fields)
        if method == "HEAD" or status in _BODILESS or status == 101:
            return Response(version, status, reason, fields, b"", "complete")
        if names.get("transfer-encoding", "").lower() == "chunked":
            body, end = self._chunked()
        elif "content-length" in names:
            length = int(names["content-length"])
            body = self.exactly(length)
            end = "complete" if len(body) == length else "cut"
        else:
            body, end = self.rest(), "closed"
        return Response(version, status, reason, fields, body, end)

    def exactly(self, count):
        """So many bytes; fewer at the end of the connection."""
        pieces, missing = [self._data[:count]], count - len(self._data)
        self._data = self._data[count:]
        while missing > 0 and (piece := self._receive()):
            pieces.append(piece[:missing])
            self._data = piece[missing:]
            missing -= len(piece)
        return b"".join(pieces)

    def rest(self):
        """Everything up to the end of the connection."""
        pieces, self._data = [self._data], b""
        while piece := self._receive():
            pieces.append(piece)
        return b"".join(pieces)

    def at_end(self):
        """Whether the server closes the connection without another byte."""
        return not self.rest()

    def _head(self):
        while b"\r\n\r\n" not in self._data:
            piece = self._receive()
            expect(piece, f"the connection ended in place of a response; before that came {self._data[:200]!r}")
            self._data += piece
            expect(len(self._data) < _HEAD_BYTES_MAX or b"\r\n\r\n" in self._data, "a head without an end")
        head, _, self._data = self._data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        status, _, reason = rest.partition(" ")
        expect(version in ("HTTP/1.0", "HTTP/1.1") and status.isdigit(), f"no status line: {first!r}")
        fields = []
        for line in lines:
            name, colon, value = line.partition(":")
            expect(colon and name and name == name.strip(), f"no header field: {line!r}")
            fields.append((name.lower(), value.strip(" \t")))
        return version, int(status), reason, fields

    def _line(self):
        """One line without its end; None at the end of the connection."""
        while b"\r\n" not in self._data:
            piece = self._receive()
            if not piece:
                return None
            self._data += piece
        line, _, self._data = self._data.partition(b"\r\n")
        return line

    def _chunked(self):
        pieces = []
        while (line := self._line()) is not None:
            try:
                size = int(line.split(b";")[0], 16)
            except ValueError as error:
                raise Failure(f"no size of a chunk: {line[:100]!r}") from error
            if size == 0:
                while line := self._line():
                    pass
                return b"".join(pieces), "complete" if line == b"" else "cut"
            piece = self.exactly(size)
            pieces.append(piece)
            if len(piece) < size or self._line() != b"":
                break
        return b"".join(pieces), "cut"

    def _receive(self):
        if self.pause_s:
            time.sleep(self.pause_s)
        try:
            return self.socket.recv(self.piece_bytes)
        except ConnectionResetError:
            return b""
        except TimeoutError as error:
            raise Failure(f"nothing came for {DEADLINE_S} s") from error
