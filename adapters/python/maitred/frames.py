"""Frames of version 1 of adapters/PROTOCOL.md: bytes and descriptors in, entries out, and the reverse. No I/O.

An entry is a tuple whose first item is the kind:

    (REQUEST, connection, request, flags, passed, meta, head, body, body_file)
    (FORGET, connection, 0)  (CANCEL, connection, request)  (PING, 0, request)  (SHUTDOWN, 0, 0)

`passed` is the connection's descriptor if it came along, `body_file` that of a body in a file; both else None. TRAILERS is
checked, and is no entry: no interface has a place for what it says.
"""

import os
import re
import resource
import struct
from collections import deque

VERSION = 1
PAYLOAD_BYTES_MAX = 2 * 1024 * 1024
META_BYTES_MAX = 4096
NAME_BYTES_MAX = 64
CAPACITY_MAX = 65536
TAIL_BYTES_MAX = 64 * 1024
TAIL_TOTAL_BYTES_MAX = 1024 * 1024
TAILS_MAX = 1024
TAIL_FILES_MAX = 8
TRAILER_BYTES_MAX = 8190
# The kernel passes at most this many descriptors in one message (SCM_MAX_FD); so many may wait for their frames.
RIGHTS_MAX = 253
_FRAME_RIGHTS_MAX = 2

REQUEST, FORGET, CANCEL, PING, SHUTDOWN, WELCOME, TRAILERS = 1, 2, 3, 4, 5, 6, 7
HELLO, DONE, TAIL, PONG, DETACH, LIMITS, STREAMS = 65, 66, 67, 68, 69, 70, 71

# Flags of HELLO, of REQUEST, of DONE, of TAIL, and of any frame.
RECOVERS = 2
KEEP, HTTP10, HEAD, BODY_FD, MAY_DETACH, BODY_STREAM = 1, 2, 4, 8, 16, 32
CLEAN, CLOSE = 1, 2
FILE = 1
OPTIONAL = 128

_HEADER = struct.Struct("<IBBHII")
_LENGTHS = struct.Struct("<III")
_DONE = struct.Struct("<IBBHIIHHIQ")
_TAIL_FILE = struct.Struct("<IBBHIIQQ")
_DETACH = struct.Struct("<IBBHIIHH")
_HELLO = struct.Struct("<IBBHIIHHI")
_LIMITS = struct.Struct("<IBBHIII")
_WELCOME = struct.Struct("<HHI")
_HEADER_BYTES = _HEADER.size
_PARTS_BYTES = _HEADER.size + _LENGTHS.size
# Up to 32 fields.
_TRAILERS = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9a-z]+: [^\0\r\n]*\r\n){1,32}")


class ProtocolError(Exception):
    """The server broke the protocol; the channel is of no use any more."""


def hello(capacity, name, recovers=False):
    """HELLO."""
    flags = RECOVERS if recovers else 0
    name = name.encode()[:NAME_BYTES_MAX].decode(errors="ignore").encode()
    return _HELLO.pack(8 + len(name), HELLO, flags, 0, 0, 0, VERSION, VERSION, capacity) + name


def limits():
    """LIMITS: how many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_files = 0xFFFFFFFF if soft == resource.RLIM_INFINITY else min(soft, 0xFFFFFFFF)
    return _LIMITS.pack(4, LIMITS, OPTIONAL, 0, 0, 0, open_files)


def greeting(capacity, name, recovers=False):
    """What a worker begins with: HELLO, LIMITS, and STREAMS, which says that it takes bodies while they come."""
    return hello(capacity, name, recovers) + limits() + _HEADER.pack(0, STREAMS, OPTIONAL, 0, 0, 0)


def done(connection, request, flags, status, service_us, body_bytes):
    """DONE."""
    service_us = min(service_us, 0xFFFFFFFF)
    return _DONE.pack(16, DONE, flags, 0, connection, request, status, 0, service_us, body_bytes)


def pong(request):
    """PONG."""
    return _HEADER.pack(0, PONG, 0, 0, 0, request)


def tails(connection, request, data):
    """TAILs of bytes, as a list of pieces to send one after another."""
    pieces = []
    for at in range(0, len(data), TAIL_BYTES_MAX):
        piece = data[at : at + TAIL_BYTES_MAX]
        pieces += (_HEADER.pack(len(piece), TAIL, 0, 0, connection, request), piece)
    return pieces


def tail_file(connection, request, offset, length):
    """TAIL with FILE; the file's descriptor leaves with its first byte, or earlier."""
    return _TAIL_FILE.pack(16, TAIL, FILE, 1, connection, request, offset, length)


def detach(connection, request):
    """DETACH."""
    return _DETACH.pack(4, DETACH, 0, 0, connection, request, 101, 0)


class Decoder:
    """What Maitred sends: bytes and descriptors go in with `feed`, entries come out of `next`."""

    def __init__(self):
        self._data = b""
        self._at = 0
        self._pieces = []
        self._payload_bytes_max = PAYLOAD_BYTES_MAX
        self._welcomed = False
        # Of which request TRAILERS have come: its REQUEST is next.
        self._trailed = None
        self._arrived = deque()
        # How many bytes the next frame needs beyond those that are here.
        self.missing = _HEADER_BYTES

    def feed(self, data, descriptors=()):
        """Takes what one recvmsg brought."""
        self._arrived.extend(descriptors)
        self._pieces.append(data)
        self.missing -= len(data)

    def close(self):
        """Closes the descriptors that no frame has taken."""
        while self._arrived:
            os.close(self._arrived.popleft())

    def next(self):
        """The next entry; None if no frame is complete. Raises ProtocolError."""
        entry = self._next()
        if entry is None and len(self._arrived) > RIGHTS_MAX:
            raise ProtocolError(f"{len(self._arrived)} descriptors have come that belong to no frame")
        return entry

    def _next(self):
        while self.missing <= 0:
            if self._pieces:
                self._data = b"".join((self._data[self._at :], *self._pieces))
                self._at = 0
                self._pieces.clear()
            data, at, end = self._data, self._at, len(self._data)
            if end - at < _HEADER_BYTES:
                self.missing = _HEADER_BYTES - (end - at)
                return None
            payload_bytes, kind, flags, count, connection, request = _HEADER.unpack_from(data, at)
            frame_end = at + _HEADER_BYTES + payload_bytes
            if payload_bytes > self._payload_bytes_max:
                raise ProtocolError(f"a frame of kind {kind} has a payload of {payload_bytes} bytes")
            if frame_end > end:
                self.missing = frame_end - end
                return None
            self._at = frame_end
            if self._trailed is not None:
                self._end_trailers(kind, flags, connection, request)
            if kind == REQUEST and self._welcomed:
                return self._request(data, at, frame_end, flags, count, connection, request)
            payload = data[at + _HEADER_BYTES : frame_end]
            if kind == TRAILERS and self._welcomed:
                self._trailers(flags, count, connection, request, payload)
            elif self._control(kind, flags, count, payload):
                return kind, connection, request
        return None

    def _request(self, data, at, frame_end, flags, count, connection, request):
        bodies = 1 if flags & BODY_FD else 0
        # BODY_FD, MAY_DETACH and BODY_STREAM exclude one another.
        known = flags <= 23 or flags & ~7 == BODY_STREAM
        if not known or not bodies <= count <= bodies + 1 or frame_end - at < _PARTS_BYTES:
            raise ProtocolError(f"a REQUEST has flags {flags:#x}, {count} descriptors, {frame_end - at} bytes")
        meta_bytes, head_bytes, body_bytes = _LENGTHS.unpack_from(data, at + _HEADER_BYTES)
        head_at = at + _PARTS_BYTES + meta_bytes
        body_at = head_at + head_bytes
        if body_at + body_bytes != frame_end or meta_bytes > META_BYTES_MAX or (
            flags & (BODY_FD | BODY_STREAM) and body_bytes
        ):
            raise ProtocolError("the parts of a REQUEST do not add up")
        if data[body_at - 4 : body_at] != b"\r\n\r\n" or head_bytes < 4:
            raise ProtocolError("the head of a REQUEST does not end with an empty line")
        passed = self._take() if count > bodies else None
        body_file = self._take() if bodies else None
        meta, head, body = data[at + _PARTS_BYTES : head_at], data[head_at:body_at], data[body_at:frame_end]
        return REQUEST, connection, request, flags, passed, meta, head, body, body_file

    def _trailers(self, flags, count, connection, request, payload):
        """What the client has sent behind the body of the REQUEST that follows."""
        if count or flags & ~OPTIONAL or len(payload) > TRAILER_BYTES_MAX or not _TRAILERS.fullmatch(payload):
            raise ProtocolError(f"TRAILERS have flags {flags:#x}, {count} descriptors, or are not 1 to 32 fields")
        self._trailed = connection, request

    def _end_trailers(self, kind, flags, connection, request):
        if kind != REQUEST or (connection, request) != self._trailed or flags & MAY_DETACH:
            raise ProtocolError(f"TRAILERS of {self._trailed} stand before a frame of kind {kind}, not before their REQUEST")
        self._trailed = None

    def _take(self):
        if not self._arrived:
            raise ProtocolError("a frame was announced with a descriptor that did not come")
        return self._arrived.popleft()

    def _control(self, kind, flags, count, payload):
        """Checks a frame that is no REQUEST; whether it is an entry."""
        plain = not (count or flags & ~OPTIONAL)
        if kind == WELCOME and not self._welcomed and len(payload) == _WELCOME.size and plain:
            version, _, self._payload_bytes_max = _WELCOME.unpack(payload)
            if version != VERSION:
                raise ProtocolError(f"the server chose version {version}")
            self._welcomed = True
            return False
        if not self._welcomed:
            raise ProtocolError(f"the first frame is of kind {kind}, not WELCOME")
        if kind in (FORGET, CANCEL, PING, SHUTDOWN):
            if payload or not plain:
                raise ProtocolError(f"a frame of kind {kind} has a payload, descriptors or flags")
            return True
        if not flags & OPTIONAL or kind == WELCOME or count > _FRAME_RIGHTS_MAX:
            raise ProtocolError(f"a frame of unknown kind {kind} with flags {flags:#x}, {count} descriptors")
        for _ in range(count):
            os.close(self._take())
        return False
