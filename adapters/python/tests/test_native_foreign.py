"""A server that is not Maitred, or is broken: both forms do the same with what it sends, and keep no descriptor."""

import asyncio
import contextlib
import io
import os
import random
import socket
import struct
import threading
import unittest
from unittest import mock

from maitred import asgi, channel, native, wsgi
from maitred.frames import BODY_FD, BODY_STREAM, CANCEL, KEEP, MAY_DETACH, SHUTDOWN, ProtocolError
from tests.frames import WELCOME_FRAME, Reported, cancel_frame, forget_frame, ping_frame, request_frame, trailers_frame

_SEEDS = range(int(os.environ.get("MAITRED_CASES", "150")))
_SHUTDOWN_FRAME = struct.pack("<IBBHII", 0, SHUTDOWN, 0, 0, 0, 0)
_META = b"remote=192.0.2.7:0\nlocal=[::1]:443\nscheme=https\nqueue_us=0\n"


def _wsgi_application(environ, start_response):
    start_response("200 OK", [("X-A", "1")])
    return [environ["PATH_INFO"].encode("latin-1")]


async def _asgi_application(scope, receive, send):
    assert scope["type"] != "lifespan"
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["raw_path"]})


class Stream:
    """Frames by chance, and what is wrong with them."""

    def __init__(self, seed):
        chance = random.Random(seed)
        frames = [WELCOME_FRAME, request_frame(1, 0, meta=_META, descriptors=1)]
        more = [self._frame(chance, number) for number in range(1, chance.choice((2, 4, 8)))]
        frames += [frame for frame in more if frame]
        if chance.random() < 0.3:
            at = chance.randrange(len(frames))
            frames.insert(at, frames[chance.randrange(len(frames))])
        if chance.random() < 0.3:
            del frames[chance.randrange(len(frames))]
        is_wrong = chance.random() < 0.5
        if is_wrong:
            at = chance.randrange(len(frames))
            frame = bytearray(frames[at])
            # A number in front of the meta part: what is wrong with that itself, only the compiled part looks for.
            place = chance.randrange(min(len(frame), chance.choice((8, 8, 28))))
            frame[place] = chance.choice((0, 1, 2, 3, 255, chance.randrange(256)))
            frames[at] = bytes(frame)
        # Whether a request is over by the time that it is cancelled is a matter of chance, unless both come at once.
        cancels = any(frame[4] == CANCEL for frame in frames)
        self.data = b"".join(frames)
        # Of a frame that is not complete, only the compiled part looks at the header.
        if not is_wrong and chance.random() < 0.3:
            self.data = self.data[: chance.randrange(len(self.data) + 1)]
        self.descriptors = chance.choice((1, 1, 1, 0, 3))
        pieces = chance.choice(("all", "all", "bytes", "three"))
        self.pieces = "all" if cancels else pieces

    @staticmethod
    def _frame(chance, number):
        kind = chance.choice(("request", "request", "request", "odd", "forget", "cancel", "ping", "shutdown", "trailers"))
        connection = chance.choice((1, 1, 1, 2))
        if kind == "request":
            fields = chance.choice(("", "x-request-id: 1\r\n", "x_a: 1\r\nx-a\r\n", "a: 1\r\na: 2\r\n"))
            target, meta = chance.choice(("/", "/a b", "/%zz?%", "*", "")), chance.choice((_META, b"", b"=\nx=y=\n"))
            return request_frame(connection, number, target, meta=meta, fields=fields)
        if kind == "odd":
            flags = KEEP | chance.choice((BODY_FD, BODY_STREAM, MAY_DETACH, 64))
            return request_frame(connection, number, flags=flags, meta=_META)
        if kind == "shutdown":
            return _SHUTDOWN_FRAME if chance.random() < 0.5 else b""
        if kind == "trailers":
            return trailers_frame(connection, number + 1, b"a: b\r\n")
        request = chance.choice((number, number + 1, number - 1))
        return {"forget": forget_frame(connection), "cancel": cancel_frame(connection, request), "ping": ping_frame(number)}[kind]


class Outcome:
    """What a worker made of a stream."""

    def __init__(self, stream, serve):
        before = set(os.listdir("/proc/self/fd"))
        ours, theirs = socket.socketpair()
        near, far = socket.socketpair()
        far.setblocking(False)
        numbers = [far.fileno()] * stream.descriptors
        data = stream.data
        sizes = {"all": len(data), "bytes": 1, "three": 3}[stream.pieces]

        def feed():
            rest, rights = data, numbers
            with contextlib.suppress(OSError):
                while rest:
                    # The worker may be in the middle of a frame each time.
                    socket.send_fds(ours, [rest[:sizes]], rights)
                    rest, rights = rest[sizes:], []
            with contextlib.suppress(OSError):
                ours.shutdown(socket.SHUT_WR)
            far.close()

        found, log = [], io.StringIO()
        feeder = threading.Thread(target=feed)
        listener = threading.Thread(target=lambda: found.append(Reported(ours)))
        feeder.start()
        listener.start()
        self.end = "orderly"
        with contextlib.redirect_stderr(log), contextlib.redirect_stdout(log):
            try:
                serve(theirs)
            except ProtocolError as error:
                self.end = type(error).__name__
        theirs.close()
        feeder.join()
        listener.join()
        ours.close()
        sent = b""
        near.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            while piece := near.recv(65536):
                sent += piece
        near.close()
        self.dones = sorted((done.request, done.flags, done.status) for done in found[0].dones)
        self.heads = sent.count(b"HTTP/1.1 ")
        self.left = len(set(os.listdir("/proc/self/fd")) - before)

    def __repr__(self):
        return f"{vars(self)}"


def _serve_wsgi(kind):
    def serve(sock):
        worker = kind(sock)
        try:
            wsgi.serve(worker, _wsgi_application)
        finally:
            worker.close()

    return serve


def _serve_asgi(kind):
    def serve(sock):
        with mock.patch.object(asgi, "_session_class", lambda: kind):
            asyncio.run(asgi.Worker(_asgi_application).main(sock, 100, "test"))

    return serve


@unittest.skipIf(native.library is None, f"there is no compiled part: {native.why_not}")
class Differential(unittest.TestCase):
    maxDiff = None

    def _compare(self, pure, compiled, ends_tasks=False):
        for seed in _SEEDS:
            with self.subTest(seed=seed):
                found, wanted = (Outcome(Stream(seed), serve) for serve in (compiled, pure))
                if ends_tasks and wanted.end != "orderly":
                    # How far they were by then is a matter of chance.
                    found.dones = wanted.dones = found.heads = wanted.heads = None
                self.assertEqual(repr(found), repr(wanted))
                self.assertEqual(found.left, 0)

    def test_wsgi(self):
        from maitred.native_channel import Channel

        self._compare(_serve_wsgi(channel.Channel), _serve_wsgi(Channel))

    def test_asgi(self):
        from maitred.native_session import Session

        self._compare(_serve_asgi(asgi._Session), _serve_asgi(Session), ends_tasks=True)


if __name__ == "__main__":
    unittest.main()
