"""WebSockets of WSGI applications: `environ` has the client's socket, and an application that writes 101 to it has taken it over.

The interface has no word for that. Libraries (simple-websocket, which flask-sock is made of) look for `werkzeug.socket` or
`gunicorn.socket`, and speak on the socket themselves, for as long as the connection lasts.
"""

import contextlib
import os
import select
import socket
import threading
from time import monotonic

from . import websocket

WERKZEUG, GUNICORN = "werkzeug.socket", "gunicorn.socket"
# Each holds a thread, and simple-websocket adds another: about 100 KiB together. Requests beyond that find no socket.
SOCKETS_MAX = 1000
# How long connections that were taken over have to come to their end when the process does.
LEAVE_S = 10.0
# As much of a response as says which status it has: "HTTP/1.1 101".
_STATUS_BYTES = 12


class Offered(socket.socket):
    """The client's connection as an application gets it. The first that is written to it is a response: 101 takes the connection
    over, and anything else is a response that this adapter has no part in."""

    def __init__(self, descriptor, early, is_websocket, taken):
        # A descriptor of its own: whatever the application does with it, that of the connection keeps its number.
        super().__init__(fileno=os.dup(descriptor))
        self._early = early
        self._is_websocket = is_websocket
        # Called once, with the status of the response.
        self._taken = taken
        self._begun = b""
        self._status = None
        # Whether the client went away before all of that was written.
        self.lost = False
        self._timeout = None
        self._leaving = False
        self._writing = threading.RLock()

    def send(self, data, flags=0):
        with self._writing:
            if self._leaving:
                return len(data)
            if self._status == 101:
                return super().send(data, flags)
            self._begin(bytes(data))
            return len(data)

    def sendall(self, data, flags=0):
        with self._writing:
            if self._leaving:
                return
            if self._status == 101:
                super().sendall(data, flags)
            else:
                self._begin(bytes(data))

    def sendmsg(self, buffers, *arguments):
        return self.send(b"".join(buffers))

    def recv(self, size, flags=0):
        self._need_connection()
        if self._early:
            data, self._early = self._early[:size], self._early[size:]
            return data
        return super().recv(size, flags)

    def recv_into(self, buffer, size=0, flags=0):
        self._need_connection()
        if self._early:
            data = self.recv(size or len(buffer))
            buffer[: len(data)] = data
            return len(data)
        return super().recv_into(buffer, size, flags)

    def settimeout(self, value):
        # Before that the mode of the descriptor is Maitred's as well.
        self._timeout = value
        if self._status == 101:
            super().settimeout(value)

    def setblocking(self, flag):
        self.settimeout(None if flag else 0.0)

    def shutdown(self, how):
        if self._status == 101:
            super().shutdown(how)

    def leave(self):
        """The process ends: says so to a client that speaks WebSocket; what the application adds to that is not sent."""
        if self._writing.acquire(timeout=0.1):
            try:
                if self._is_websocket:
                    with contextlib.suppress(OSError):
                        super().send(websocket.encode_close(1001), socket.MSG_DONTWAIT)
                self._leaving = True
            finally:
                self._writing.release()
        if not self._is_websocket:
            self.cut()

    def cut(self):
        """Ends the connection for its readers and writers."""
        with contextlib.suppress(OSError):
            super().shutdown(socket.SHUT_RDWR)

    def _need_connection(self):
        if self._status != 101:
            raise OSError("nothing may be read before the connection is taken over by a response with status 101")

    def _begin(self, data):
        """Bytes of the response, before it is known to be a 101. Raises OSError."""
        if self._status is None:
            self._begun += data
            if len(self._begun) < _STATUS_BYTES:
                return
            data, self._begun = self._begun, b""
            number = data[9:_STATUS_BYTES]
            status = int(number) if data.startswith(b"HTTP/1.") and number.isdigit() else 500
        else:
            status = self._status
        self._write_out(data)
        if self._status is None:
            self._status = status
            self._taken(status)
            if status == 101:
                super().settimeout(self._timeout)

    def _write_out(self, data):
        rest = memoryview(data)
        poll = select.poll()
        poll.register(self, select.POLLOUT)
        while rest:
            try:
                rest = rest[super().send(rest, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                poll.poll()
            except OSError:
                self.lost = True
                raise


class Sockets:
    """What the applications of one process have taken over."""

    def __init__(self, key):
        self._key = key
        self._lock = threading.Lock()
        # Each socket, and the thread that the application keeps for it.
        self._open = {}

    def answer(self, answer, channel, application, build, entry):
        """Answers a request that may detach. It runs in a thread of its own: when the application has taken the connection over,
        this returns, and the thread is the application's for as long as it wants."""
        offer = _Offer(self, channel, entry)

        def run():
            try:
                answer(channel, application, build, entry, offer)
            finally:
                offer.settled.set()

        offer.thread = threading.Thread(target=run, daemon=True)
        offer.thread.start()
        offer.settled.wait()

    def leave(self, patience_s=LEAVE_S):
        """The process ends."""
        with self._lock:
            there = dict(self._open)
        for sock in there:
            sock.leave()
        deadline = monotonic() + patience_s
        for thread in there.values():
            thread.join(max(0.0, deadline - monotonic()))
        for sock, thread in there.items():
            if thread.is_alive():
                sock.cut()

    def offer(self, descriptor, early, environ, taken):
        """Puts the connection into `environ`; None if there are too many already."""
        with self._lock:
            if len(self._open) >= SOCKETS_MAX:
                return None
        is_websocket = environ.get("HTTP_UPGRADE", "").lower() == "websocket"
        environ[self._key] = sock = Offered(descriptor, early, is_websocket, taken)
        # The code of this request runs beside that of others.
        environ["wsgi.multithread"] = True
        return sock

    def add(self, sock, thread):
        """It was taken over."""
        with self._lock:
            self._open[sock] = thread

    def discard(self, sock):
        """The application has returned."""
        with self._lock:
            self._open.pop(sock, None)


class _Offer:
    """The connection of one request that may detach, as wsgi.answer sees it."""

    def __init__(self, sockets, channel, entry):
        self._sockets = sockets
        self._channel = channel
        self._connection, self._request, _, self._descriptor = entry[:4]
        self._early = entry[6]
        self._socket = None
        self._response = None
        # The status of the response that the application has written by itself.
        self._status = None
        self.thread = None
        # Set when the channel is free for the next request.
        self.settled = threading.Event()

    def make(self, environ, response):
        """Before the application runs."""
        self._response = response
        self._socket = self._sockets.offer(self._descriptor, self._early, environ, self._taken)

    def _taken(self, status):
        self._status = status
        self._response.give_away()
        if status == 101:
            self._channel.detach(self._connection, self._request)
            self._sockets.add(self._socket, self.thread)
            self.settled.set()

    def excuses(self, error):
        """Whether this is how libraries leave when they have spoken on the socket: gunicorn wants StopIteration."""
        if self._status is None:
            return self._socket is not None and self._socket.lost
        return isinstance(error, (StopIteration, OSError))

    def end(self, response):
        """After the application has returned; whether DETACH was said, and DONE must not be."""
        if self._socket is not None:
            self._sockets.discard(self._socket)
            socket.socket.close(self._socket)
        if self._status is not None:
            # It is not known where that response ends.
            response.status, response.outcome, response.body_bytes = self._status, 0, 0
        return self._status == 101
