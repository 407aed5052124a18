"""Frames as Maitred writes them, for the tests."""

import os
import socket
import struct
from typing import NamedTuple

from maitred.frames import BODY_FD, CANCEL, DONE, FILE, FORGET, HEAD, KEEP, OPTIONAL, PING, REQUEST, TAIL, TRAILERS, WELCOME

_HEADER = struct.Struct("<IBBHII")
WELCOME_FRAME = _HEADER.pack(8, WELCOME, 0, 0, 0, 0) + struct.pack("<HHI", 1, 0, 2 * 1024 * 1024)
_META = b"remote=[2001:db8::1]:999\nlocal=192.0.2.1:80\nscheme=https\nmount=\nqueue_us=5\n"


class Done(NamedTuple):
    """What a DONE says."""

    flags: int
    request: int
    status: int
    body_bytes: int


def request_frame(connection, request, target="/", method="GET", flags=KEEP, body=b"", descriptors=0, meta=None, spooled=None, announced=None, fields=""):
    """A REQUEST; `spooled` is the size of a body that comes as a descriptor, `announced` that of one that follows it, `fields` are
    more lines of the head."""
    meta = _META if meta is None else meta
    length = f"content-length: {len(body) if spooled is None else spooled}\r\n" if body or spooled is not None else ""
    if announced is not None:
        length = f"content-length: {announced}\r\n"
    if spooled is not None:
        flags, descriptors = flags | BODY_FD, descriptors + 1
    head = f"{method} {target} HTTP/1.1\r\nhost: example.com\r\n{length}{fields}\r\n".encode("latin-1")
    payload = struct.pack("<III", len(meta), len(head), len(body)) + meta + head + body
    flags |= HEAD if method == "HEAD" else 0
    return _HEADER.pack(len(payload), REQUEST, flags, descriptors, connection, request) + payload


def trailers_frame(connection, request, lines, flags=OPTIONAL, descriptors=0):
    """A TRAILERS."""
    return _HEADER.pack(len(lines), TRAILERS, flags, descriptors, connection, request) + lines


def forget_frame(connection):
    """A FORGET."""
    return _HEADER.pack(0, FORGET, 0, 0, connection, 0)


def cancel_frame(connection, request):
    """A CANCEL."""
    return _HEADER.pack(0, CANCEL, 0, 0, connection, request)


def small_pair():
    """A client's end of a connection and the application's, which takes as much as sockets do by default, whatever this machine's
    default is: tests count on what it does not take."""
    near, far = socket.socketpair()
    # The kernel doubles it.
    far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 106_496)
    far.setblocking(False)
    return near, far


def ping_frame(number):
    """A PING."""
    return _HEADER.pack(0, PING, 0, 0, 0, number)


class Reported:
    """Everything that a worker said until the end of its channel: DONEs, and what its TAILs add to the responses."""

    def __init__(self, sock):
        self.dones, self.tail, self.tails = [], b"", []
        self._descriptors, data = [], b""
        while True:
            try:
                piece, descriptors, _, _ = socket.recv_fds(sock, 65536, 253)
            except ConnectionResetError:  # The worker left bytes unread: the frames were invalid.
                break
            self._descriptors += descriptors
            if not piece:
                break
            data += piece
        while data:
            size, kind, flags, _, _, request = _HEADER.unpack_from(data)
            self._take(kind, flags, request, data[16 : 16 + size])
            data = data[16 + size :]

    def _take(self, kind, flags, request, payload):
        if kind == DONE:
            status, _, _, body_bytes = struct.unpack("<HHIQ", payload)
            self.dones.append(Done(flags, request, status, body_bytes))
        elif kind == TAIL:
            self.tails.append("file" if flags & FILE else "bytes")
            if flags & FILE:
                offset, length = struct.unpack("<QQ", payload)
                descriptor = self._descriptors.pop(0)
                payload = b""
                while piece := os.pread(descriptor, length - len(payload), offset + len(payload)):
                    payload += piece
                os.close(descriptor)
            self.tail += payload
