"""WSGI in several threads of one process, which share one channel: requests run at the same time, as `capacity` says."""

import os
import queue
import socket
import threading
from time import monotonic

from . import frames
from .channel import RETRY_S, receive_message, send_message, will_take_descriptors
from .connections import Connections
from .environ import EnvironBuilder
from .frames import CANCEL, MAY_DETACH, PING, SHUTDOWN, ProtocolError
from .sockets import WERKZEUG, Sockets
from .wsgi import answer


class Crew:
    """Threads that run what is put in, one for each task up to `count`. They do not hold the process up when it exits."""

    def __init__(self, count):
        self._count = count
        self._tasks = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._threads = 0
        # Tasks that were put in and have not ended.
        self._pending = 0

    def put(self, task):
        """Runs `task()` in one of them."""
        with self._changed:
            self._pending += 1
            more = self._threads < min(self._pending, self._count)
            self._threads += more
        self._tasks.put(task)
        if more:
            threading.Thread(target=self._run, daemon=True).start()

    def wait(self):
        """Until everything has ended."""
        with self._changed:
            self._changed.wait_for(lambda: not self._pending)

    def _run(self):
        while True:
            task = self._tasks.get()
            try:
                task()
            finally:
                with self._changed:
                    self._pending -= 1
                    self._changed.notify_all()


class Session:
    """One channel, its connections and the requests that it has brought. `answer_entry(session, entry)` runs in a thread of the
    crew, and uses `done`, `report`, `detach`, `tail` and `tail_file` as those of channel.Channel."""

    def __init__(self, sock, crew, answer_entry):
        sock.setblocking(True)
        self._sock = sock
        self._crew = crew
        self._answer_entry = answer_entry
        self._decoder = frames.Decoder()
        # Guards all that follows, and what is written to the channel.
        self._lock = threading.RLock()
        self._connections = Connections(
            self._begin, lambda connection, request: self.done(connection, request, 0, 0, 0), self._fail
        )
        # Requests that no thread has begun with, and whether each was cancelled.
        self._cancelled = {}
        # Those of them that run.
        self._told = set()
        # When each of those that run began.
        self._began = {}
        self._lost = False
        # The same, for threads that wait.
        self._dropped = threading.Event()
        # What a thread of the crew found wrong with what Maitred said.
        self._violation = None

    def receive(self, wait):
        """Takes what comes until the channel ends; whether it was SHUTDOWN. `wait(sock)` comes before each receive. Raises
        ProtocolError."""
        more = True
        while True:
            while (entry := self._decoder.next()) is not None:
                if entry[0] == SHUTDOWN:
                    return True
                self._take(entry)
            if self._violation is not None:
                raise self._violation
            if not more:
                return False
            wait(self._sock)
            more = receive_message(self._sock, self._decoder)

    def stop_receiving(self):
        """Takes no more requests than the kernel has for this process. Safe in a signal handler."""
        try:
            self._sock.shutdown(socket.SHUT_RD)
        except OSError:
            pass  # Maitred is gone already: the same end.

    def send(self, data, rights=()):
        """One or more frames. What is sent on a channel that is lost is dropped."""
        while not self._try_to_send(data, rights):
            # Others may send in the meantime, and what has come is received.
            self._dropped.wait(RETRY_S)

    def _try_to_send(self, data, rights):
        """False if that has to be tried again."""
        with self._lock:
            if self._lost:
                return True
            try:
                sent = send_message(self._sock, data, rights)
                if sent < len(data):
                    self._sock.sendall(memoryview(data)[sent:])
            except OSError as error:
                # If not, Maitred is gone; the next receive says so.
                return not will_take_descriptors(error, self._sock, 0)
            return True

    def is_cancelled(self, connection, request):
        """Whether a request that runs was cancelled."""
        return (connection, request) in self._told

    def done(self, connection, request, flags, status, body_bytes):
        """Reports a request."""
        now = monotonic()
        with self._lock:
            service_us = int((now - self._began.pop((connection, request), now)) * 1_000_000)
            self._told.discard((connection, request))
        self.send(frames.done(connection, request, flags, status, service_us, body_bytes))

    def detach(self, connection, request):
        """Reports that the connection is the application's from now on."""
        with self._lock:
            self._began.pop((connection, request))
            self._told.discard((connection, request))
            descriptor = self._connections.detach(connection, request)
            if descriptor is not None:
                os.close(descriptor)
            self.send(frames.detach(connection, request))

    def report(self):
        """Nothing waits here."""

    def tail(self, connection, request, data):
        """TAILs of bytes."""
        self.send(b"".join(frames.tails(connection, request, data)))

    def tail_file(self, connection, request, descriptor, offset, length):
        """TAIL of a file; the caller may close its descriptor."""
        self.send(frames.tail_file(connection, request, offset, length), [descriptor])

    def drop(self):
        """The channel is lost: what no thread has begun with never will be, and what runs is not reported."""
        with self._lock:
            self._lost = True
            self._dropped.set()
            self._connections.drop_waiting()
            for key in self._cancelled:
                self._cancelled[key] = True
            self._connections.close_idle()
            self._decoder.close()
            self._sock.close()

    def close(self):
        """Everything has ended: closes the channel and all descriptors."""
        self.drop()
        self._connections.close()

    def _take(self, entry):
        kind, connection, request = entry[:3]
        with self._lock:
            if kind == PING:
                self.send(frames.pong(request))
            elif kind == CANCEL:
                self._cancel(connection, request)
            else:
                self._connections.take(entry)

    def _cancel(self, connection, request):
        """Only what has not begun: a thread cannot be interrupted. It notices when it writes, and waits for its client."""
        if (connection, request) in self._cancelled:
            self._cancelled[connection, request] = True
        elif (connection, request) in self._began:
            self._told.add((connection, request))
        self._connections.cancel(connection, request)

    def _begin(self, entry, descriptor):
        _, connection, request, flags, _, meta, head, body, body_file = entry
        self._cancelled[connection, request] = False
        entry = connection, request, flags, descriptor, meta, head, body, body_file
        self._crew.put(lambda: self._run(entry))

    def _run(self, entry):
        """In a thread of the crew."""
        connection, request, body_file = entry[0], entry[1], entry[7]
        with self._lock:
            cancelled = self._cancelled.pop((connection, request))
        try:
            if cancelled:
                self.done(connection, request, 0, 0, 0)
            else:
                self._began[connection, request] = monotonic()
                self._answer_entry(self, entry)
        finally:
            if body_file is not None:
                os.close(body_file)
            with self._lock:
                self._connections.release(connection, request, keep=not self._lost)

    def _fail(self, error):
        self._violation = error
        self.stop_receiving()



class Server:
    """Serves one channel after another with a crew of threads."""

    def __init__(self, sock, threads, name, answer_entry, recovery=None):
        self._crew = Crew(threads)
        self._capacity = threads
        self._name = name
        self._recovery = recovery
        self._answer_entry = answer_entry
        self._leaving = False
        self._session = self._open(sock)

    def _open(self, sock):
        return Session(sock, self._crew, self._answer_entry)

    def stop_receiving(self):
        """Takes no more requests. Safe in a signal handler."""
        self._leaving = True
        if self._recovery is not None:
            self._recovery.stop()
        self._session.stop_receiving()

    def serve(self, wait=lambda sock: None, wait_for_recovery=None):
        """Answers requests until the channel ends, and there is no other. Raises ProtocolError."""
        while True:
            self._session.send(frames.greeting(self._capacity, self._name, self._recovery is not None))
            told = self._session.receive(wait)
            if told or self._recovery is None or self._leaving:
                break
            self._session.drop()
            (wait_for_recovery or type(self._recovery).wait)(self._recovery)
            sock = None if self._leaving else self._recovery.take()
            if sock is None:
                break
            self._session = self._open(sock)
            if self._leaving:
                # The signal came when this was not the channel yet.
                break
        self._crew.wait()
        self._session.close()


def serve(sock, application, threads, name, recovery=None, on_server=lambda server: None):
    """What wsgi.serve is for one thread. Raises frames.ProtocolError."""
    build = EnvironBuilder({"wsgi.multithread": True}).build
    sockets = Sockets(WERKZEUG)
    server = Server(sock, threads, name, answering(sockets, answer, application, build), recovery)
    on_server(server)
    server.serve()
    sockets.leave()


def answering(sockets, answer_one, application, build):
    """What a Session calls for each request."""

    def run(session, entry):
        if entry[2] & MAY_DETACH:
            sockets.answer(answer_one, session, application, build, entry)
        else:
            answer_one(session, application, build, entry)

    return run
