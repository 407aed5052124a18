"""Descriptors on the channel: too many of them."""

import asyncio
import os
import socket
import struct
import threading
import unittest
from unittest import mock

from maitred import asgi, channel, native, wsgi
from maitred.frames import ProtocolError
from tests.frames import WELCOME_FRAME, ping_frame

_BODY = b"x" * 1_000_000
_HEADER = struct.Struct("<IBBHII")


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


if __name__ == "__main__":
    unittest.main()
