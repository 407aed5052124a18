"""Frames as Maitred writes them, for the tests."""

import struct
from typing import NamedTuple

from maitred.channel import DONE, FORGET, HEAD, HELLO, KEEP, REQUEST, WELCOME

_HEADER = struct.Struct("<IBBHII")
WELCOME_FRAME = _HEADER.pack(8, WELCOME, 0, 0, 0, 0) + struct.pack("<HHI", 1, 0, 2 * 1024 * 1024)
_META = b"remote=[2001:db8::1]:999\nlocal=192.0.2.1:80\nscheme=https\nmount=\nqueue_us=5\n"


class Done(NamedTuple):
    """What a DONE says."""

    flags: int
    request: int
    status: int
    body_bytes: int


def request_frame(connection, request, target="/", method="GET", flags=KEEP, body=b"", descriptors=0, meta=None):
    """A REQUEST."""
    meta = _META if meta is None else meta
    length = f"content-length: {len(body)}\r\n" if body else ""
    head = f"{method} {target} HTTP/1.1\r\nhost: example.com\r\n{length}\r\n".encode("latin-1")
    payload = struct.pack("<III", len(meta), len(head), len(body)) + meta + head + body
    flags |= HEAD if method == "HEAD" else 0
    return _HEADER.pack(len(payload), REQUEST, flags, descriptors, connection, request) + payload


def forget_frame(connection):
    """A FORGET."""
    return _HEADER.pack(0, FORGET, 0, 0, connection, 0)


def read_dones(sock):
    """Every DONE until the end of the channel; HELLO is skipped."""
    data = b""
    while piece := sock.recv(65536):
        data += piece
    dones = []
    while data:
        size, kind, flags, _, _, request = _HEADER.unpack_from(data)
        status, _, _, body_bytes = struct.unpack_from("<HHIQ", data, 16) if kind == DONE else (0, 0, 0, 0)
        if kind != HELLO:
            dones.append(Done(flags, request, status, body_bytes))
        data = data[16 + size :]
    return dones
