"""The channel to Maitred: frames in, reports out. Nothing here knows HTTP.

Version 1 of adapters/PROTOCOL.md, section by section: frames, descriptors, reports, end.
"""

import array
import os
import socket
import struct
from collections import deque
from time import monotonic

VERSION = 1
PAYLOAD_BYTES_MAX = 2 * 1024 * 1024
META_BYTES_MAX = 4096
NAME_BYTES_MAX = 64
CAPACITY_MAX = 65536

REQUEST, FORGET, CANCEL, PING, SHUTDOWN, WELCOME = 1, 2, 3, 4, 5, 6
HELLO, DONE, PONG = 65, 66, 68

# Flags of REQUEST, of DONE, and of any frame.
KEEP, HTTP10, HEAD = 1, 2, 4
CLEAN, CLOSE = 1, 2
OPTIONAL = 128

_HEADER = struct.Struct("<IBBHII")
_LENGTHS = struct.Struct("<III")
_DONE = struct.Struct("<IBBHIIHHIQ")
_HELLO = struct.Struct("<IBBHIIHHI")
_WELCOME = struct.Struct("<HHI")
_HEADER_BYTES = _HEADER.size
_REQUEST_BYTES_MIN = _HEADER_BYTES + _LENGTHS.size

# Below the size from which malloc maps and unmaps memory for each buffer.
_RECEIVE_BYTES = 64 * 1024
_RECEIVE_BYTES_MAX = 1024 * 1024
# The kernel passes at most this many descriptors in one message (SCM_MAX_FD).
_ANCILLARY_BYTES = socket.CMSG_SPACE(253 * 4)

# Reports wait for company this long at most: half of what the protocol allows, because a request that is running
# cannot be interrupted.
_REPORT_WAIT_S = 0.0005
# After a request of this length, so many requests are reported at once: nobody waits for the report of a fast
# request while a slow one runs.
_SLOW_S = 0.001
_SLOW_REQUESTS = 100


class ProtocolError(Exception):
    """The server broke the protocol; the channel is of no use any more."""


class Channel:
    """One channel. ``requests()`` yields what is to be answered, ``done()`` reports it.

    ``descriptors`` maps connection numbers to the descriptors of client sockets.
    """

    def __init__(self, sock, capacity=1, name="python"):
        self._sock = sock
        self._capacity = capacity
        self._name = name
        self._payload_bytes_max = PAYLOAD_BYTES_MAX
        self._arrived = deque()
        self._reports = []
        self._first_report = 0.0
        self._began = 0.0
        self._report_at_once = 0
        self._welcomed = False
        self.descriptors = {}

    def hello(self):
        """Tells Maitred that this process is ready."""
        name = self._name.encode()[:NAME_BYTES_MAX].decode(errors="ignore").encode()
        hello = _HELLO.pack(8 + len(name), HELLO, 0, 0, 0, 0, VERSION, VERSION, self._capacity)
        self._send(hello + name)

    def stop_receiving(self):
        """Takes no more requests; those already received are still yielded. Safe in a signal handler.

        What Maitred sends from now on fails on its side with EPIPE, so no request is lost in between.
        """
        try:
            self._sock.shutdown(socket.SHUT_RD)
        except OSError:
            pass  # Maitred is gone already: the same end.

    def requests(self):
        """Yields ``(connection, request, flags, descriptor, meta, head, body)`` until the channel ends.

        ``meta``, ``head`` and ``body`` are bytes. Raises ProtocolError.
        """
        header_of, lengths_of = _HEADER.unpack_from, _LENGTHS.unpack_from
        descriptors = self.descriptors
        data, at, end = b"", 0, 0
        while True:
            if end - at < _HEADER_BYTES:
                data = self._receive(data[at:], _HEADER_BYTES - (end - at))
                if data is None:
                    return
                at, end = 0, len(data)
            payload_bytes, kind, flags, count, connection, request = header_of(data, at)
            frame_end = at + _HEADER_BYTES + payload_bytes
            if frame_end > end:
                if payload_bytes > self._payload_bytes_max:
                    raise ProtocolError(f"a frame of kind {kind} has a payload of {payload_bytes} bytes")
                data = self._receive(data[at:], frame_end - end)
                if data is None:
                    return
                at, end, frame_end = 0, len(data), _HEADER_BYTES + payload_bytes
            if kind != REQUEST or not self._welcomed:
                if not self._control(kind, flags, count, connection, request, data[at + _HEADER_BYTES : frame_end]):
                    self.report()
                    return
                at = frame_end
                continue
            if flags > 7 or count > 1 or payload_bytes < 12:
                raise ProtocolError(f"a REQUEST has flags {flags:#x}, {count} descriptors, {payload_bytes} bytes")
            meta_bytes, head_bytes, body_bytes = lengths_of(data, at + _HEADER_BYTES)
            if meta_bytes + head_bytes + body_bytes + 12 != payload_bytes or meta_bytes > META_BYTES_MAX:
                raise ProtocolError("the parts of a REQUEST do not add up")
            if count:
                self._cache(connection)
            descriptor = descriptors.get(connection)
            if descriptor is None:
                raise ProtocolError(f"a REQUEST for connection {connection}, whose descriptor never came")
            at += _REQUEST_BYTES_MIN
            head_at = at + meta_bytes
            body_at = head_at + head_bytes
            meta, head, body = data[at:head_at], data[head_at:body_at], data[body_at:frame_end]
            if head[-4:] != b"\r\n\r\n":
                raise ProtocolError("the head of a REQUEST does not end with an empty line")
            at = frame_end
            yield connection, request, flags, descriptor, meta, head, body

    def done(self, connection, request, flags, status, body_bytes):
        """Reports the request that was yielded last; the report may wait a little for others."""
        now = monotonic()
        service = now - self._began
        self._began = now
        reports = self._reports
        if not reports:
            self._first_report = now
        service_us = min(int(service * 1_000_000), 0xFFFFFFFF)
        reports.append(_DONE.pack(16, DONE, flags, 0, connection, request, status, 0, service_us, body_bytes))
        if service > _SLOW_S:
            self._report_at_once = _SLOW_REQUESTS
        if self._report_at_once:
            self._report_at_once -= 1
            self.report()
        elif now - self._first_report > _REPORT_WAIT_S:
            self.report()

    def report(self):
        """Sends all reports that wait."""
        if self._reports:
            data = b"".join(self._reports)
            self._reports.clear()
            self._send(data)

    def close(self):
        """Closes every cached descriptor, and the channel."""
        for descriptor in [*self.descriptors.values(), *self._arrived]:
            os.close(descriptor)
        self.descriptors.clear()
        self._arrived.clear()
        self._sock.close()

    def _send(self, data):
        try:
            self._sock.sendall(data)
        except OSError:
            pass  # Maitred is gone; the next receive says so.

    def _receive(self, rest, missing):
        """Waits until `missing` bytes have been added to `rest`. None at the end of the channel."""
        self.report()
        pieces = [rest]
        while missing > 0:
            wanted = min(max(missing, _RECEIVE_BYTES), _RECEIVE_BYTES_MAX)
            try:
                data, ancillary, flags, _ = self._sock.recvmsg(wanted, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC)
            except ConnectionResetError:
                return None
            if ancillary or flags & socket.MSG_CTRUNC:
                self._arrive(ancillary, flags)
            if not data:
                return None
            pieces.append(data)
            missing -= len(data)
        self._began = monotonic()
        return b"".join(pieces) if rest or len(pieces) > 2 else data

    def _arrive(self, ancillary, flags):
        numbers = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
        self._arrived.extend(numbers)
        if flags & socket.MSG_CTRUNC:
            raise ProtocolError("descriptors were lost: too many in one message, or no free descriptor left")

    def _cache(self, connection):
        if not self._arrived:
            raise ProtocolError("a frame was announced with a descriptor that did not come")
        self._forget(connection)
        self.descriptors[connection] = self._arrived.popleft()

    def _forget(self, connection):
        descriptor = self.descriptors.pop(connection, None)
        if descriptor is not None:
            os.close(descriptor)

    def _control(self, kind, flags, count, connection, request, payload):
        """Handles a frame that is no REQUEST; False for SHUTDOWN."""
        plain = not (count or flags & ~OPTIONAL)
        if kind == WELCOME and not self._welcomed and len(payload) == _WELCOME.size and plain:
            version, _, self._payload_bytes_max = _WELCOME.unpack(payload)
            if version != VERSION:
                raise ProtocolError(f"the server chose version {version}")
            self._welcomed = True
            return True
        if not self._welcomed:
            raise ProtocolError(f"the first frame is of kind {kind}, not WELCOME")
        if kind in (FORGET, CANCEL, PING, SHUTDOWN):
            if payload or not plain:
                raise ProtocolError(f"a frame of kind {kind} has a payload, descriptors or flags")
            if kind == FORGET:
                self._forget(connection)
            elif kind == PING:
                self._reports.append(_HEADER.pack(0, PONG, 0, 0, 0, request))
                self.report()
            return kind != SHUTDOWN
        if not flags & OPTIONAL or kind == WELCOME:
            raise ProtocolError(f"a frame of unknown kind {kind}")
        for _ in range(count):
            if not self._arrived:
                raise ProtocolError("a frame was announced with a descriptor that did not come")
            os.close(self._arrived.popleft())
        return True
