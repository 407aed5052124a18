"""The rest of a response whose socket is full: Maitred delivers it, and the worker is free (PROTOCOL.md, "TAIL")."""

import os
import select
import tempfile
from time import monotonic

from .frames import TAIL_BYTES_MAX, TAIL_FILES_MAX, TAILS_MAX

# More than this goes through a file: it is copied once less, and the kernel need not hold it in the channel.
_BYTES_MAX = 256 * 1024
# A response that comes in pieces goes on at least so often, if it has anything new.
_INTERVAL_S = 0.05
_COPY_BYTES = 256 * 1024
# What a file in memory may hold; what comes after goes to a temporary file.
_MEMORY_BYTES_MAX = 64 * 1024 * 1024
# The last frames are kept for the end. So are three files: one before what comes, in memory and on disk, and one behind it.
_FRAMES_MAX = TAILS_MAX - 8
_FILES_MAX = TAIL_FILES_MAX - 4


class ClientGone(Exception):
    """The client has closed or lost its connection; nobody is to blame."""


class Tail:
    """Everything behind the first byte that the socket did not take; `end` has to be called at last."""

    def __init__(self, channel, connection, request, descriptor):
        self._channel = channel
        self._connection = connection
        self._request = request
        self._descriptor = descriptor
        self._pieces = []
        self._waiting = 0
        self._sent_bytes = 0
        self._frames = 0
        self._files = 0
        self._last = monotonic()
        self._spool = None
        self._slow = False

    def write(self, data):
        """More of the response. Raises ClientGone and OSError."""
        if self._slow:
            self._poll_out(data)
            return
        # The application may change or free what a memoryview shows.
        self._pieces.append(bytes(data))
        self._waiting += len(data)
        due = self._waiting >= TAIL_BYTES_MAX or monotonic() - self._last > _INTERVAL_S
        if due and self._frames < _FRAMES_MAX:
            # Nothing is written that would fail: a stream without an end would go on for nobody.
            self._look()
            self._flush(False)

    def file(self, descriptor, offset, length):
        """A part of a file. Raises OSError."""
        if self._files < _FILES_MAX:
            self._flush(True)
            self._pass(descriptor, offset, length)
            return
        while length:
            data = os.pread(descriptor, min(length, _COPY_BYTES), offset)
            if not data:
                raise OSError("a file is shorter than it was")
            self.write(data)
            offset += len(data)
            length -= len(data)

    def end(self):
        """Nothing more comes."""
        try:
            self._flush(True)
        finally:
            if self._spool is not None:
                self._spool.close()

    def disown(self):
        """The descriptor is not this response's any more."""
        self._descriptor = -1

    def _look(self):
        """Raises ClientGone if the connection is lost, or Maitred has shut it down."""
        if self._descriptor < 0:
            raise ClientGone
        poll = select.poll()
        poll.register(self._descriptor, 0)
        if poll.poll(0):
            raise ClientGone

    def _flush(self, last):
        if not self._waiting:
            if last and self._spool is not None:
                self._pass_spool()
            return
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._waiting = 0
        if self._spool is None and self._sent_bytes + len(data) <= _BYTES_MAX:
            self._sent_bytes += len(data)
            self._frames += 1 + len(data) // TAIL_BYTES_MAX
            self._last = monotonic()
            self._channel.tail(self._connection, self._request, data)
        elif self._spool is not None or self._open_spool(data):
            self._fill_spool(data, last)

    def _open_spool(self, data):
        """False if there is no file to be had, and `data` was written to the socket instead."""
        try:
            self._spool = _Spool()
        except OSError:
            if self._frames:
                raise
            # Nothing that Maitred would have to send first: then it takes as long as the client does.
            self._slow = True
            self._poll_out(data)
            return False
        return True

    def _fill_spool(self, data, last):
        if not self._spool.on_disk and self._spool.length + len(data) > _MEMORY_BYTES_MAX:
            self._pass_spool()
            self._spool.close()
            self._spool = _Spool(on_disk=True)
        self._spool.write(data)
        # Each time is one more descriptor, and Maitred sends nothing of it before the end.
        if last:
            self._pass_spool()

    def _pass_spool(self):
        spool = self._spool
        if spool.length > spool.passed:
            self._pass(spool.fileno(), spool.passed, spool.length - spool.passed)
            spool.passed = spool.length
            self._last = monotonic()

    def _pass(self, descriptor, offset, length):
        self._channel.tail_file(self._connection, self._request, descriptor, offset, length)
        self._frames += 1
        self._files += 1

    def _poll_out(self, data):
        """Waits for room as often as it takes. Maitred ends a wait that is too long by shutting the socket down."""
        if self._descriptor < 0:
            raise ClientGone
        rest = memoryview(data)
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                poll.poll()
            except OSError as error:
                raise ClientGone from error


class _Spool:
    """A file without a name. Raises OSError."""

    def __init__(self, on_disk=False):
        self.on_disk = on_disk
        self.length = 0
        self.passed = 0
        if not on_disk:
            try:
                self._file = open(os.memfd_create("response", os.MFD_CLOEXEC), "wb", buffering=0)
                return
            except OSError:
                self.on_disk = True
        self._file = tempfile.TemporaryFile(buffering=0)

    def fileno(self):
        return self._file.fileno()

    def write(self, data):
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        self.length += len(data)

    def close(self):
        self._file.close()
