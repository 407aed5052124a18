"""Descriptors and frames on the channel: too many of them, and several threads that write."""

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import socket
import struct
import termios
import threading
import unittest
from unittest import mock

from maitred import asgi, channel, native, threads, wsgi
from maitred.frames import CLEAN, TAIL, ProtocolError
from tests.frames import WELCOME_FRAME, Done, Reported, ping_frame, request_frame, small_pair
from tests.served import DEADLINE_S, until

# More than a response descriptor takes, and than goes as bytes: the rest is a file.
_BODY = b"x" * 1_000_000
# Fewer than one message brings.
_OPEN_FILES = 200
_HEADER = struct.Struct("<IBBHII")
# Capabilities that lift the limit of descriptors that are under way (linux/capability.h): CAP_SYS_ADMIN, CAP_SYS_RESOURCE.
_LIFTING = 1 << 21 | 1 << 24
_CAPABILITY_VERSION = 0x20080522


def _wsgi_kinds():
    yield channel.Channel
    if native.library is not None:
        from maitred.native_channel import Channel

        yield Channel


def _asgi_kinds():
    yield asgi._Session
    if native.library is not None:
        from maitred.native_session import Session

        yield Session


def _serve_wsgi(kind, sock, application):
    worker = kind(sock)
    try:
        wsgi.serve(worker, application)
    finally:
        worker.close()


def _serve_asgi(kind, sock, application):
    with mock.patch.object(asgi, "_session_class", lambda: kind):
        asyncio.run(asgi.Worker(application).main(sock, 100, "test"))


def _forms():
    """Name, what serves a channel, and whether the application is one of ASGI."""
    for kind in _wsgi_kinds():
        yield f"{kind.__module__} WSGI", lambda sock, application, kind=kind: _serve_wsgi(kind, sock, application), False
    for kind in _asgi_kinds():
        yield f"{kind.__module__} ASGI", lambda sock, application, kind=kind: _serve_asgi(kind, sock, application), True


class _Application:
    """Answers with _BODY, and says when it has begun."""

    def __init__(self):
        self.begun = threading.Event()

    def wsgi(self, _, start_response):
        self.begun.set()
        start_response("200 OK", [])
        return [_BODY]

    async def asgi(self, scope, receive, send):
        if scope["type"] != "http":
            return
        self.begun.set()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": _BODY})


@contextlib.contextmanager
def _without_privileges():
    """The limit holds for this thread, whoever runs it."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    # Effective, permitted and inheritable ones, of 32 each.
    sets = (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    before = sets[0]
    sets[0] &= ~_LIFTING
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")
    try:
        yield
    finally:
        sets[0] = before
        libc.capset(header, sets)


@contextlib.contextmanager
def _crowded():
    """More descriptors are under way than this process may pass; yields what takes them out again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    near, far = socket.socketpair()
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, hard))
    try:
        socket.send_fds(near, [b"x"], [near.fileno()] * 253)
        # The kernel closes those that are not asked for.
        yield lambda: far.recv(1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        near.close()
        far.close()


def _until_read(sock):
    """Until the other side has read everything."""
    until(lambda: fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)) == bytes(4), lambda: "the worker reads nothing")


def _read_all(sock):
    data = b""
    while piece := sock.recv(65536):
        data += piece
    return data


class TooManyUnderWay(unittest.TestCase):
    """ETOOMANYREFS: what passes a descriptor is kept until the kernel takes it."""

    def test_the_report_leaves_when_there_is_room(self):
        for name, serve, is_asgi in _forms():
            with self.subTest(name):
                self._leaves(serve, is_asgi)

    def _leaves(self, serve, is_asgi):
        near, reports = self._crowd(serve, is_asgi, lambda ours: ours.shutdown(socket.SHUT_WR))
        raw = _read_all(near) + reports.tail
        near.close()
        self.assertEqual(reports.dones, [Done(CLEAN, 7, 200, len(_BODY))])
        self.assertEqual(reports.tails, ["file"])
        self.assertEqual(raw.partition(b"\r\n\r\n")[2], _BODY)

    def test_nothing_is_tried_again_when_the_server_has_gone(self):
        for name, serve, is_asgi in _forms():
            with self.subTest(name):
                near, _ = self._crowd(serve, is_asgi, None)
                near.close()

    def _crowd(self, serve, is_asgi, end):
        """Serves one request, whose report the kernel does not take at first. Then it does, and `end` is called with the channel;
        without it the channel is closed. Returns the client's end, and what was reported."""
        ours, theirs = socket.socketpair()
        near, far = small_pair()
        application, found = _Application(), []

        def drive(empty):
            application.begun.wait(DEADLINE_S)
            # The worker reads on behind its attempt to report.
            ours.sendall(ping_frame(1))
            _until_read(ours)
            if end is not None:
                empty()
                end(ours)
                found.append(Reported(ours))
            ours.close()

        with _crowded() as empty:
            socket.send_fds(ours, [WELCOME_FRAME + request_frame(5, 7, descriptors=1)], [far.fileno()])
            far.close()
            driver = threading.Thread(target=drive, args=(empty,), daemon=True)
            driver.start()
            with _without_privileges():
                serve(theirs, application.asgi if is_asgi else application.wsgi)
            theirs.close()
            driver.join()
        return near, found[0] if found else None

    def test_threads_that_share_a_channel_keep_theirs(self):
        ours, theirs = socket.socketpair()
        session = threads.Session(theirs, threads.Crew(1), None)
        refused = []

        def send_message(sock, data, rights):
            if rights and len(refused) < 3:
                refused.append(data)
                # Another thread's report does not wait.
                session.done(1, 1, CLEAN, 200, 1)
                raise OSError(errno.ETOOMANYREFS, "too many references")
            return channel.send_message(sock, data, rights)

        with open(__file__, "rb") as file, mock.patch.object(threads, "send_message", send_message):
            session.tail_file(5, 7, file.fileno(), 0, 10)
            session.done(5, 7, CLEAN, 200, 10)
            file.seek(0)
            expected = file.read(10)
        session.close()
        reported = Reported(ours)
        ours.close()
        self.assertEqual((len(refused), reported.tail), (3, expected))
        self.assertEqual([done.request for done in reported.dones], [1, 1, 1, 7])


class Strays(unittest.TestCase):
    """Descriptors that no frame has taken."""

    def test_as_many_as_one_message_brings_are_closed_at_the_end(self):
        for name, serve, is_asgi in _forms():
            with self.subTest(name):
                self.assertIsNone(self._ended_by(serve, is_asgi, 253))

    def test_more_are_a_violation(self):
        for name, serve, is_asgi in _forms():
            with self.subTest(name):
                self.assertIn("254 descriptors", str(self._ended_by(serve, is_asgi, 253, 1)))

    def _ended_by(self, serve, is_asgi, *counts):
        """The ProtocolError that ends a worker to which so many descriptors come with frames that want none."""
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        frames = [WELCOME_FRAME, ping_frame(1)]
        for count, frame in zip(counts, frames):
            socket.send_fds(ours, [frame], [writing] * count)
        os.close(writing)
        ours.shutdown(socket.SHUT_WR)
        application, error = _Application(), None
        try:
            serve(theirs, application.asgi if is_asgi else application.wsgi)
        except ProtocolError as raised:
            error = raised
        theirs.close()
        # The last copy is gone.
        os.set_blocking(reading, False)
        self.assertEqual(os.read(reading, 1), b"")
        os.close(reading)
        ours.close()
        return error

    def test_no_frame_has_more_than_two(self):
        for name, serve, is_asgi in _forms():
            with self.subTest(name):
                ours, theirs = socket.socketpair()
                # An optional frame of a kind that nobody knows.
                socket.send_fds(ours, [WELCOME_FRAME + _HEADER.pack(0, 63, 128, 3, 0, 0)], [ours.fileno()] * 3)
                ours.shutdown(socket.SHUT_WR)
                application = _Application()
                with self.assertRaises(ProtocolError):
                    serve(theirs, application.asgi if is_asgi else application.wsgi)
                theirs.close()
                ours.close()


class Writers(unittest.TestCase):
    """Several threads leave parts of responses while the channel is full."""

    def test_frames_do_not_mix(self):
        for kind in _wsgi_kinds():
            with self.subTest(kind.__module__):
                self._do_not_mix(kind)

    def _do_not_mix(self, kind):
        ours, theirs = socket.socketpair()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
        worker = kind(theirs)

        def write(number):
            for _ in range(3):
                # More than may wait: they leave at once.
                worker.tail(number, number, bytes([number]) * 100_000)
                worker.done(number, number, CLEAN, 200, 100_000)

        writers = [threading.Thread(target=write, args=(number,), daemon=True) for number in range(4)]
        for writer in writers:
            writer.start()

        def end():
            for writer in writers:
                writer.join()
            worker.report()
            worker.close()
            theirs.close()

        ender = threading.Thread(target=end, daemon=True)
        ender.start()
        ours.settimeout(DEADLINE_S)
        data = _read_all(ours)
        ender.join()
        ours.close()
        tails = dict.fromkeys(range(4), 0)
        while data:
            size, frame, _, _, _, request = _HEADER.unpack_from(data)
            payload, data = data[16 : 16 + size], data[16 + size :]
            if frame == TAIL:
                self.assertEqual(payload.count(request), size)
                tails[request] += size
        self.assertEqual(tails, dict.fromkeys(range(4), 300_000))


if __name__ == "__main__":
    unittest.main()
