"""The rest of a response whose socket is full: Maitred delivers it, and the worker is free (PROTOCOL.md, "TAIL")."""

import os
import select
import tempfile
import threading
from time import monotonic

from . import log
from .frames import TAIL_BYTES_MAX

# More than this goes through a file: it is copied once less, and the kernel need not hold it in the channel.
_BYTES_MAX = 256 * 1024
# The socket is tried again for so much that is new, or after so long: a stream goes on when its client does.
_INTERVAL_S = 0.05
# What a file in memory may hold; what comes after goes to a temporary file.
_MEMORY_BYTES_MAX = 64 * 1024 * 1024
# MAITRED_SPOOL_MIB: what the responses that run in a process may keep in files, together, for clients that read slowly. A
# large export fits, so that it holds no process; a stream without an end does not fill the disk.
_SPOOL_MIB = 1024
_SPOOL_MIB_MAX = 1024 * 1024
# How long a client may take nothing while the application waits for it. Less than a pool's `request_timeout` (60 s), at whose
# end a process of one thread is killed.
_WAIT_S = 30
# How often such a wait looks for a CANCEL: a relay has room, or is shut down, long after its client has gone.
_LOOK_S = 0.2


class ClientGone(Exception):
    """The client has closed or lost its connection; that is no failure."""


def _spool_bytes(text):
    """What MAITRED_SPOOL_MIB says. Ends the process, which has not said HELLO yet, if that makes no sense."""
    try:
        mib = int(text)
    except ValueError:
        mib = -1
    if not 0 <= mib <= _SPOOL_MIB_MAX:
        raise SystemExit(f"maitred: MAITRED_SPOOL_MIB={text!a}: not a number from 0 to {_SPOOL_MIB_MAX}")
    return mib * 1024 * 1024


class _Budget:
    """Bytes that may be taken, by several threads."""

    def __init__(self, limit):
        self.limit = limit
        self.taken = 0
        self._lock = threading.Lock()

    def take(self, count):
        """False if there are not so many."""
        with self._lock:
            if self.taken + count > self.limit:
                return False
            self.taken += count
            return True

    def give_back(self, count):
        with self._lock:
            self.taken -= count


_budget = _Budget(_spool_bytes(os.environ.get("MAITRED_SPOOL_MIB", str(_SPOOL_MIB))))


class Tail:
    """Everything behind the first byte that the socket did not take; `end` has to be called at last. It is kept here as long as
    more may come, and goes to the socket in between: Maitred sends nothing of a TAIL before DONE. If it is more than may be
    kept, `write` waits for the client, unless `may_wait` is false: then nothing but one piece that the application has in its
    memory anyway is expected."""

    def __init__(self, channel, connection, request, descriptor, may_wait=True):
        self._channel = channel
        self._connection = connection
        self._request = request
        self._descriptor = descriptor
        self._may_wait = may_wait
        # In this order: files, the one in memory first, and then at most _BYTES_MAX in pieces.
        self._spools = []
        self._pieces = []
        self._waiting = 0
        # Bytes in pieces when the socket was tried last; None before the first of them, for which it has just been full.
        self._tried = None
        self._last = monotonic()
        # After the first TAIL nothing is written to the socket.
        self._passed = False
        self._taken = 0
        self._said = False

    def write(self, data):
        """More of the response. Raises ClientGone and OSError."""
        # The application may change or free what a memoryview shows.
        self._pieces.append(bytes(data))
        self._waiting += len(data)
        if self._tried is None:
            self._tried = self._waiting
        elif self._waiting - self._tried >= TAIL_BYTES_MAX or monotonic() - self._last > _INTERVAL_S:
            self._pump()
        if self._waiting > _BYTES_MAX:
            self._keep()

    def last(self, data, start, end):
        """A part of bytes behind which little follows. It is not copied if it is much. Raises ClientGone and OSError."""
        view = memoryview(data)[start:end]
        if len(view) <= _BYTES_MAX or self._pieces:
            self.write(view)
        else:
            self._put_away(view)

    def file(self, descriptor, offset, length):
        """A part of a file; once in a response. Raises OSError."""
        self._pass_kept()
        self._channel.tail_file(self._connection, self._request, descriptor, offset, length)
        self._passed = True

    def end(self):
        """Nothing more comes. Raises OSError."""
        try:
            self._pass_kept()
        finally:
            self._drop()

    def disown(self):
        """The descriptor is not this response's any more."""
        self._descriptor = -1

    def _pump(self):
        """Sends what the socket takes now."""
        self._last = monotonic()
        try:
            if not self._passed:
                self._send_spools()
                self._send_pieces()
        except BlockingIOError:
            pass
        except OSError as error:
            self._drop()
            raise ClientGone from error
        self._tried = self._waiting

    def _send_spools(self):
        """Raises BlockingIOError if the socket is full, and other kinds of OSError if it is lost."""
        while self._spools:
            spool = self._spools[0]
            while spool.sent < spool.length:
                sent = os.sendfile(self._descriptor, spool.fileno(), spool.sent, spool.length - spool.sent)
                if not sent:
                    raise OSError("a temporary file has shrunk")
                spool.sent += sent
            spool.close()
            del self._spools[0]
        _budget.give_back(self._taken)
        self._taken = 0

    def _send_pieces(self):
        """As _send_spools."""
        data = self._joined()
        self._pieces, self._waiting = [data], len(data)
        if data:
            rest = data[os.write(self._descriptor, data) :]
            self._pieces, self._waiting = [rest], len(rest)

    def _joined(self):
        """All pieces, which are none afterwards."""
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces, self._waiting, self._tried = [], 0, 0
        return data

    def _keep(self):
        """Pieces become files, as far as they may."""
        self._put_away(memoryview(self._joined()))

    def _put_away(self, rest):
        within = not self._may_wait or _budget.take(len(rest))
        if within:
            if self._may_wait:
                self._taken += len(rest)
            try:
                rest = self._spool(rest)
            except OSError:
                if not self._may_wait:
                    raise
        if rest:
            self._wait_with(rest, "no room for a file" if within else f"more than {_budget.limit >> 20} MiB (MAITRED_SPOOL_MIB)")

    def _spool(self, rest):
        """Returns what a full disk did not take. Raises OSError."""
        if self._spools and (self._spools[-1].on_disk or self._spools[-1].length + len(rest) <= _MEMORY_BYTES_MAX):
            spool = self._spools[-1]
        else:
            spool = _Spool(on_disk=bool(self._spools) or len(rest) > _MEMORY_BYTES_MAX)
            self._spools.append(spool)
        return spool.write(rest, self._may_wait)

    def _wait_with(self, rest, why):
        """Until the client has taken all that is kept, and `rest`. Maitred ends a wait by shutting the socket down."""
        if self._passed:
            raise OSError(f"behind a file there are {why} of a response")
        if not self._said:
            self._said = True
            log.warn(f"the application waits for a client that reads slowly: {why}")
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        while True:
            try:
                self._send_spools()
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
                return
            except BlockingIOError:
                if not self._is_writable(poll):
                    log.warn(f"response aborted: its client read nothing for {_WAIT_S} s, and there are {why}")
                    self._drop()
                    raise ClientGone from None
            except OSError as error:
                self._drop()
                raise ClientGone from error

    def _is_writable(self, poll):
        """Waits; whether there is room again. Raises ClientGone."""
        end = monotonic() + _WAIT_S
        while (left := end - monotonic()) > 0:
            if poll.poll(min(left, _LOOK_S) * 1000):
                return True
            if self._channel.is_cancelled(self._connection, self._request):
                self._drop()
                raise ClientGone
        return False

    def _pass_kept(self):
        """What is kept is left to Maitred."""
        while self._spools:
            spool = self._spools[0]
            # One whose first write failed is empty.
            if spool.length > spool.sent:
                self._channel.tail_file(
                    self._connection, self._request, spool.fileno(), spool.sent, spool.length - spool.sent
                )
                self._passed = True
            spool.close()
            del self._spools[0]
        if self._waiting:
            self._channel.tail(self._connection, self._request, self._joined())
            self._passed = True

    def _drop(self):
        for spool in self._spools:
            spool.close()
        self._spools, self._pieces, self._waiting = [], [], 0
        _budget.give_back(self._taken)
        self._taken = 0


class _Spool:
    """A file without a name. Raises OSError."""

    def __init__(self, on_disk=False):
        self.on_disk = on_disk
        self.length = 0
        self.sent = 0
        if not on_disk:
            try:
                self._file = open(os.memfd_create("response", os.MFD_CLOEXEC), "wb", buffering=0)
                return
            except OSError:
                self.on_disk = True
        self._file = tempfile.TemporaryFile(buffering=0)

    def fileno(self):
        return self._file.fileno()

    def write(self, rest, partly):
        """Returns what does not fit, if it may be written `partly`. Raises OSError."""
        try:
            while rest:
                taken = self._file.write(rest)
                self.length += taken
                rest = rest[taken:]
        except OSError:
            if not partly:
                raise
        return rest

    def close(self):
        self._file.close()
