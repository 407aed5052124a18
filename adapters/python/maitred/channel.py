"""The channel of a worker that answers one request after another: waits for frames, reports in batches."""

import array
import errno
import os
import select
import socket
import threading
from collections import deque
from time import monotonic

from . import frames
from .frames import CANCEL, FORGET, PING, REQUEST, SHUTDOWN, ProtocolError
from .recovery import Recoverable

# Below the size from which malloc maps and unmaps memory for each buffer.
_RECEIVE_BYTES = 64 * 1024
_RECEIVE_BYTES_MAX = 1024 * 1024
_ANCILLARY_BYTES = socket.CMSG_SPACE(frames.RIGHTS_MAX * 4)
# How long frames wait whose descriptors the kernel does not take, before they are tried again: nothing reports that it would.
RETRY_S = 0.005

# Reports wait for company this long at most: half of what the protocol allows, because a request that is running
# cannot be interrupted.
_REPORT_WAIT_S = 0.0005
# After a request of this length, so many requests are reported at once: the report of a fast request does not
# wait while a slow one runs.
_SLOW_S = 0.001
_SLOW_REQUESTS = 100
# Tails do not wait for company beyond this.
_WAITING_BYTES_MAX = 64 * 1024
_WAITING_RIGHTS_MAX = 32


def receive_message(sock, decoder, flags=0):
    """One recvmsg into the decoder; False at the end of the channel. Raises BlockingIOError and ProtocolError."""
    wanted = min(max(decoder.missing, _RECEIVE_BYTES), _RECEIVE_BYTES_MAX)
    try:
        data, ancillary, got, _ = sock.recvmsg(wanted, _ANCILLARY_BYTES, flags | socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return False
    numbers = array.array("i")
    for level, kind, rights in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers.frombytes(rights[: len(rights) - len(rights) % numbers.itemsize])
    decoder.feed(data, numbers)
    if got & socket.MSG_CTRUNC:
        raise ProtocolError("descriptors were lost: too many in one message, or no free descriptor left")
    return bool(data)


def send_message(sock, data, rights):
    """One sendmsg with descriptors; how many bytes were taken. Raises OSError."""
    if not rights:
        return sock.send(data)
    return sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", rights))])


def will_take_descriptors(error, sock, wait_s):
    """Whether `error` says that too many descriptors are under way (PROTOCOL.md, section 2), and the other side is still there,
    also after `wait_s`: the same message may be sent again then."""
    if error.errno != errno.ETOOMANYREFS:
        return False
    poll = select.poll()
    # That the other side has gone is reported unasked.
    poll.register(sock, 0)
    return not poll.poll(wait_s * 1000)


class Channel(Recoverable):
    """One channel. ``requests()`` yields what is to be answered, ``done()`` reports it.

    ``descriptors`` maps connection numbers to the descriptors that responses are written to.
    """

    def __init__(self, sock, capacity=1, name="python", recovery=None):
        self._capacity = capacity
        self._name = name
        # Where another channel comes from if this one is lost (recovery.Recovery).
        self._recovery = recovery
        self._leaving = False
        self._queue = deque()
        # Guards reports, and what is written to the channel: threads of an application may write its response.
        self._lock = threading.RLock()
        self._reports = []
        self._rights = []
        self._report_at_once = 0
        # The last CANCEL of one that was not waiting: (connection, request).
        self._cancelled = None
        self.descriptors = {}
        self._open(sock)

    def _open(self, sock):
        sock.setblocking(True)
        self._sock = sock
        self._decoder = frames.Decoder()
        # What is wrong behind the entries of the queue.
        self._violation = None
        self._ended = False
        self._waiting_bytes = 0
        self._first_report = 0.0
        self._began = 0.0

    def hello(self):
        """Tells Maitred that this process is ready."""
        self._send(frames.greeting(self._capacity, self._name, self._recovery is not None), ())

    def requests(self):
        """Yields ``(connection, request, flags, descriptor, meta, head, body, body_file)`` until the channel ends.

        ``meta``, ``head`` and ``body`` are bytes; ``body_file`` is None or a descriptor that is closed when the next
        request is asked for. Raises ProtocolError.
        """
        queue, descriptors = self._queue, self.descriptors
        while True:
            if self._ended and self._is_lost():
                if not self._recover():
                    return
                continue
            if not queue:
                if not self._fill() and not self._is_lost():
                    self.report()
                    return
                continue
            if self._report_at_once and queue[0][0] == REQUEST:
                # Requests are slow: time enough to look whether the clients of those that wait are still there.
                self._peek()
                if self._ended and self._is_lost():
                    continue
            entry = queue.popleft()
            if entry[0] == SHUTDOWN:
                self.report()
                return
            if entry[0] != REQUEST:
                self._control(*entry)
                continue
            _, connection, request, flags, passed, meta, head, body, body_file = entry
            if passed is not None:
                self._forget(connection)
                descriptors[connection] = passed
            if head is None:
                self.done(connection, request, 0, 0, 0)
                continue
            descriptor = descriptors.get(connection)
            if descriptor is None:
                self.report()
                raise ProtocolError(f"a REQUEST for connection {connection}, whose descriptor never came")
            yield connection, request, flags, descriptor, meta, head, body, body_file
            if body_file is not None:
                os.close(body_file)

    def unusual(self, application, builder):
        """What is left to be answered of the requests of `application`: all of them, because nothing is answered here."""
        return self.requests()

    def done(self, connection, request, flags, status, body_bytes):
        """Reports the request that was yielded last; the report may wait a little for others."""
        now = monotonic()
        service = now - self._began
        self._began = now
        report = frames.done(connection, request, flags, status, int(service * 1_000_000), body_bytes)
        with self._lock:
            if not self._reports:
                self._first_report = now
            self._reports.append(report)
        if service > _SLOW_S:
            self._report_at_once = _SLOW_REQUESTS
        if self._report_at_once:
            self._report_at_once -= 1
            self.report()
        elif now - self._first_report > _REPORT_WAIT_S:
            self.report()

    def detach(self, connection, request):
        """Reports that the connection of the request that was yielded last is the application's from now on."""
        self._began = monotonic()
        self._forget(connection)
        with self._lock:
            self._reports.append(frames.detach(connection, request))
            self.report()

    def tail(self, connection, request, data):
        """Leaves bytes of the response that was yielded last to Maitred."""
        self._wait_with(frames.tails(connection, request, data), len(data))

    def tail_file(self, connection, request, descriptor, offset, length):
        """Leaves a part of a file to Maitred; the caller may close its descriptor. Raises OSError if there is no free one."""
        with self._lock:
            self._rights.append(os.dup(descriptor))
            self._wait_with([frames.tail_file(connection, request, offset, length)], 0)

    def report(self):
        """Sends all reports that wait."""
        with self._lock:
            if not self._reports:
                return
            data, rights = b"".join(self._reports), self._rights
            self._reports.clear()
            self._rights = []
            self._waiting_bytes = 0
            self._send(data, rights)
            for descriptor in rights:
                os.close(descriptor)

    def _is_lost(self):
        """Whether the channel has ended in no orderly way, and there may be another."""
        if not self._ended or self._recovery is None or self._leaving:
            return False
        return all(entry[0] != SHUTDOWN for entry in self._queue)

    def close(self):
        """Closes every descriptor that was received, and the channel."""
        for descriptor in [*self.descriptors.values(), *self._rights]:
            os.close(descriptor)
        for entry in self._queue:
            close_all(entry)
        self.descriptors.clear()
        self._queue.clear()
        self._reports.clear()
        self._rights.clear()
        self._decoder.close()
        self._sock.close()

    def _wait_with(self, pieces, waiting_bytes):
        with self._lock:
            if not self._reports:
                self._first_report = monotonic()
            self._reports += pieces
            self._waiting_bytes += waiting_bytes
            if self._waiting_bytes > _WAITING_BYTES_MAX or len(self._rights) >= _WAITING_RIGHTS_MAX:
                self.report()

    def _send(self, data, rights):
        try:
            sent = self._send_first(data, rights)
            if sent < len(data):
                self._sock.sendall(memoryview(data)[sent:])
        except OSError:
            pass  # Maitred is gone; the next receive says so.

    def _send_first(self, data, rights):
        """How many bytes were taken, with all descriptors. Raises OSError."""
        while True:
            try:
                return send_message(self._sock, data, rights)
            except OSError as error:
                if not will_take_descriptors(error, self._sock, RETRY_S):
                    raise
            try:
                # Those that wait here count as well: of one user there is one number.
                self._peek()
            except ProtocolError as error:
                self._violation = error

    def _fill(self):
        """Puts at least one more entry into the queue; False at the end of the channel."""
        while not self._decode() and not self._queue:
            if self._violation is not None:
                self.report()
                raise self._violation
            if self._ended:
                return False
            self.report()
            if self._queue or self._ended or self._violation is not None:
                # What has come while the reports left.
                continue
            self._wait()
            if not receive_message(self._sock, self._decoder):
                # A frame that is not complete is dropped.
                self._ended = True
            self._began = monotonic()
        return True

    def _wait(self):
        """Comes before each receive; where there is more to wait for than the channel, it may return late."""

    def _peek(self):
        """Takes what has come in the meantime, without waiting."""
        with self._lock:
            try:
                while not self._ended and self._violation is None:
                    self._ended = not receive_message(self._sock, self._decoder, socket.MSG_DONTWAIT)
                    self._decode()
            except BlockingIOError:
                pass

    def _decode(self):
        """Moves every complete frame into the queue; whether there was one."""
        found = False
        try:
            while self._violation is None and (entry := self._decoder.next()) is not None:
                found = True
                if entry[0] == CANCEL:
                    self._cancel(entry[1], entry[2])
                else:
                    self._queue.append(entry)
        except ProtocolError as error:
            # What stood before it was in order.
            self._violation = error
        return found

    def _cancel(self, connection, request):
        """Empties a request that has not been started. One that runs, or is done, cannot be stopped."""
        for at, entry in enumerate(self._queue):
            if entry[:3] == (REQUEST, connection, request):
                if entry[8] is not None:
                    os.close(entry[8])
                self._queue[at] = (*entry[:5], None, None, None, None)
                return
        self._cancelled = connection, request

    def is_cancelled(self, connection, request):
        """Whether the request that was yielded last was cancelled. Looks what has come."""
        self._peek()
        return self._cancelled == (connection, request)

    def _control(self, kind, connection, request):
        if kind == FORGET:
            self._forget(connection)
        elif kind == PING:
            with self._lock:
                self._reports.append(frames.pong(request))
                self.report()

    def _forget(self, connection):
        descriptor = self.descriptors.pop(connection, None)
        if descriptor is not None:
            os.close(descriptor)


def close_all(entry):
    """Closes the descriptors of a REQUEST that is not answered any more."""
    if entry[0] == REQUEST:
        for descriptor in (entry[4], entry[8]):
            if descriptor is not None:
                os.close(descriptor)
