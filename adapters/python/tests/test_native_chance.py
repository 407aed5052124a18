"""Both forms again (tests/test_native.py): several requests of a channel, by chance, of applications that say odd things in odd
order, to clients that read nothing until the end."""

import asyncio
import collections
import contextlib
import http
import io
import os
import random
import re
import socket
import threading
import unittest
from unittest import mock

from maitred import asgi, channel, native, wsgi
from maitred.frames import HEAD, HTTP10, KEEP
from tests.frames import WELCOME_FRAME, Reported, request_frame, small_pair

_SEEDS = range(int(os.environ.get("MAITRED_CASES", "150")))
_META = b"remote=192.0.2.7:0\nlocal=[::1]:443\nscheme=https\nearly_hints=1\ntrailers=1\nqueue_us=0\n"
_REST = re.compile(rb"(?i)(date: )[^\r]*")
_FIELDS = (
    ("Content-Type", "text/plain"), ("X-A", " a\t"), ("Content-Length", "5"), ("Content-Length", "3000"), ("Connection", "x-a"),
    ("Bad Name", "x"), ("X-\u20ac", "x"), ("X-B", "\u20ac"), ("X-C", "a\nb"), ("Set-Cookie", "a=b"), ("X-D", 5), ("Trailer", "x"),
)  # fmt: skip
_PIECES = (b"", b"a", b"abcde", b"abcde", b"x" * 3000, b"y" * 20_000, b"z" * 200_000)


class _Pieces(list):
    """A list that is none for the adapter."""


class _One:
    """Says that it is one piece, which may be untrue, and is closed."""

    def __init__(self, pieces, fails):
        self.pieces, self.fails = pieces, fails

    def __len__(self):
        return 1

    def __iter__(self):
        return iter(self.pieces)

    def close(self):
        if self.fails:
            raise KeyError("close on purpose")


class _Plan:
    """The requests of a channel, and what the application does with each; each has a connection of its own."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.requests = [self._request(number) for number in range(self.chance.choice((1, 2, 5)))]
        self.seen = []

    def _request(self, number):
        chance = self.chance
        method = chance.choice(("GET", "GET", "GET", "HEAD"))
        flags = (KEEP if chance.random() < 0.8 else 0) | (HTTP10 if chance.random() < 0.2 else 0)
        flags |= HEAD if method == "HEAD" else 0
        body = chance.choice((b"", b"abc"))
        frame = request_frame(number + 1, number, f"/{number}", method, flags, body, 1, _META)
        return frame, [self._step() for _ in range(chance.choice((1, 2, 2, 3, 5)))], chance.random()

    def frames(self):
        """All REQUESTs."""
        return b"".join(frame for frame, *_ in self.requests)

    def note(self, what):
        """Something that the application has seen: both forms have to show it the same."""
        self.seen.append(what)


class Wsgi(_Plan):
    """For WSGI."""

    def _step(self):
        chance = self.chance
        kind = chance.choice(("start", "start", "start", "again", "write", "write", "hint", "fail"))
        fields = [chance.choice(_FIELDS) if chance.random() < 0.4 else _FIELDS[0] for _ in range(chance.choice((0, 1, 2)))]
        odd = ("204 None", "304 Same", "404", "99 Low", "200 \u20ac", 200, None, "200")
        status = chance.choice(("200 OK", "200 OK", "200 OK", *odd))
        return kind, status, fields, chance.choice(_PIECES), chance.random()

    def application(self, environ, start_response):
        """The application."""
        number = int(environ["PATH_INFO"][1:])
        self.note((number, environ["wsgi.input"].read()))
        _, steps, chance = self.requests[number]
        write = start_response("200 OK", [("X-First", "1")]) if chance < 0.5 else None
        for step in steps:
            try:
                write = self._do(step, environ, start_response, write) or write
            except Exception as error:
                self.note((number, step[0], type(error).__name__))
                if step[4] < 0.2:
                    raise
        return self._result(number, [step[3] for step in steps], chance)

    @staticmethod
    def _do(step, environ, start_response, write):
        kind, status, fields, piece, chance = step
        if kind == "start":
            return start_response(status, fields)
        if kind == "again":
            return start_response(status, fields, (ValueError, ValueError("handed on"), None))
        if kind == "hint":
            environ["wsgi.early_hints"](fields)
        elif kind == "fail" and chance < 0.3:
            raise ValueError("on purpose")
        elif kind == "write" and write is not None:
            write(piece if chance < 0.8 else bytearray(piece) if chance < 0.9 else None)
        return None

    def _result(self, number, pieces, chance):
        choice = int(chance * 1000) % 12
        if choice < 3:
            return [pieces, tuple(pieces), pieces[:1]][choice]
        if choice < 6:
            return [_Pieces(pieces), _Pieces(pieces[:1]), iter(pieces)][choice - 3]
        if choice < 9:
            return [_One(pieces, False), _One(pieces[:1], True), _One([], False)][choice - 6]
        if choice == 9:
            return pieces[:1][0] if pieces[0] != b"z" * 200_000 else b""
        return None if choice == 10 else self._late(number, pieces)

    @staticmethod
    def _late(number, pieces):
        yield from pieces
        raise KeyError(f"late on purpose: {number}")


class Asgi(_Plan):
    """For ASGI."""

    def _step(self):
        chance = self.chance
        kind = chance.choice(("start", "start", "body", "body", "body", "odd", "receive", "fail"))
        message = getattr(self, "_" + kind)()
        return kind, message, chance.choice(("await", "await", "await", "task", "cancelled", "both")), chance.random()

    def _start(self):
        chance = self.chance
        pairs = [chance.choice(_FIELDS[:8]) if chance.random() < 0.3 else _FIELDS[0] for _ in range(chance.choice((0, 1, 2)))]
        pairs = [(name.encode("utf-8"), value.encode("utf-8")) for name, value in pairs]
        odd = chance.random()
        mutable = [(bytearray(name), memoryview(value)) for name, value in pairs]
        headers = [pairs, pairs, pairs, tuple(pairs), [list(pair) for pair in pairs], mutable]
        message = {"type": "http.response.start", "status": chance.choice((200, 200, 200, 204, 304, 404))}
        message["headers"] = chance.choice(headers)
        if odd < 0.1:
            del message[chance.choice(("status", "headers"))]
        elif odd < 0.2:
            message["status"] = chance.choice((http.HTTPStatus.OK, "200", 99, 600, 70_000, True, None, 2.0))
        elif odd < 0.3:
            message["headers"] = chance.choice((None, [("a", "b")], [(b"a",)], [b"ab"], {b"x": b"y"}, [(b"a", b"b", b"c")], 5))
        elif odd < 0.35:
            message["trailers"] = chance.choice((True, False))
        return message

    def _body(self):
        chance = self.chance
        piece = chance.choice(_PIECES)
        message = {"type": "http.response.body", "body": piece, "more_body": chance.random() < 0.6}
        odd = chance.random()
        if odd < 0.1:
            del message[chance.choice(("body", "more_body"))]
        elif odd < 0.25:
            message["body"] = chance.choice((bytearray(piece), memoryview(piece), "text", None, 5, [1, 2]))
        elif odd < 0.3:
            message["more_body"] = chance.choice((None, 1, "yes"))
        return message

    def _odd(self):
        hint = {"type": "http.response.early_hint", "links": [b"</a>"]}
        trailers = {"type": "http.response.trailers", "headers": [(b"x-t", b"1")]}
        unknown = ({"type": "http.unknown"}, {}, None, [], {"type": 5}, {"type": None}, {"type": b"http.response.body"}, "text")
        odd = (hint, hint, trailers, collections.ChainMap(self._body()), collections.OrderedDict(self._start()), *unknown)
        return self.chance.choice(odd)

    _receive = _fail = lambda self: None

    async def application(self, scope, receive, send):
        """The application."""
        assert scope["type"] == "http"
        number = int(scope["path"][1:])
        _, steps, chance = self.requests[number]
        if chance < 0.8:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"x-first", b"1")]})
        for step in steps:
            try:
                await self._do(number, step, receive, send)
            except Exception as error:
                self.note((number, step[0], type(error).__name__))
                if step[3] < 0.2:
                    raise
        if chance < 0.9:
            await send({"type": "http.response.body"})

    async def _do(self, number, step, receive, send):
        kind, message, how, chance = step
        if kind == "receive":
            task = asyncio.ensure_future(receive())
            for _ in range(3):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            self.note((number, "cancelled" if task.cancelled() else task.result()))
        elif kind == "fail":
            if chance < 0.3:
                raise (ValueError("on purpose") if chance < 0.2 else asyncio.CancelledError())
        elif how == "await":
            await send(message)
        elif how == "both":
            for result in await asyncio.gather(send(message), send(message), return_exceptions=True):
                self.note((number, type(result).__name__))
        else:
            task = asyncio.ensure_future(send(message))
            if how == "cancelled":
                task.cancel()
                await asyncio.wait([task])
            else:
                await task


class _Sorted(Reported):
    """The TAILs of each request."""

    def __init__(self, sock):
        self.each = collections.Counter()
        super().__init__(sock)

    def _take(self, kind, flags, request, payload):
        self.tail = b""
        super()._take(kind, flags, request, payload)
        self.each[request] = (self.each[request] or b"") + self.tail


class Outcome:
    """What came of a plan: the bytes of each response, the reports, what the application saw, and the failures in the log."""

    def __init__(self, plan, serve, reads):
        ours, theirs = socket.socketpair()
        pairs = [small_pair() for _ in plan.requests]
        socket.send_fds(ours, [WELCOME_FRAME + plan.frames()], [far.fileno() for _, far in pairs])
        ours.shutdown(socket.SHUT_WR)
        for _, far in pairs:
            far.close()
        log, found, sent = io.StringIO(), [], {}
        listener = threading.Thread(target=lambda: found.append(_Sorted(ours)))
        readers = [threading.Thread(target=self._read, args=(near, sent, at)) for at, (near, _) in enumerate(pairs)]
        started = [listener, *readers] if reads else [listener]
        for thread in started:
            thread.start()
        try:
            with contextlib.redirect_stderr(log):
                serve(theirs, plan)
        finally:
            theirs.close()
            for thread in () if reads else readers:
                thread.start()
            for thread in (listener, *readers):
                thread.join()
            for sock in (ours, *(near for near, _ in pairs)):
                sock.close()
        self.responses = [_REST.sub(rb"\1-", sent[at] + (found[0].each[at] or b"")) for at in range(len(pairs))]
        self.dones = sorted(found[0].dones, key=lambda done: done.request)
        self.seen = sorted(map(repr, plan.seen))
        # The last line says what went wrong; where, is the form's own.
        self.failures = sorted(re.findall(r"(?m)^[A-Za-z.]+(?:Error|Exception)\b", log.getvalue()))

    @staticmethod
    def _read(near, sent, at):
        data = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := near.recv(65536):
                data += piece
        sent[at] = data

    def __repr__(self):
        short = [(len(response), response[:600], response[-60:]) for response in self.responses]
        return f"{short}\n{self.dones}\n{self.seen}\n{self.failures}"


def _serve_wsgi(kind):
    def serve(sock, plan):
        worker = kind(sock)
        wsgi.serve(worker, plan.application)
        worker.close()

    return serve


def _serve_asgi(kind):
    def serve(sock, plan):
        with mock.patch.object(asgi, "_session_class", lambda: kind):
            asyncio.run(asgi.Worker(plan.application).main(sock, 100, "test"))

    return serve


@unittest.skipIf(native.library is None, f"there is no compiled part: {native.why_not}")
class Differential(unittest.TestCase):
    maxDiff = None

    def _compare(self, plan, pure, compiled, reads):
        for seed in _SEEDS:
            with self.subTest(seed=seed):
                found, wanted = (Outcome(plan(seed), serve, reads) for serve in (compiled, pure))
                self.assertEqual(repr(found), repr(wanted))
                self.assertEqual(found.responses, wanted.responses)

    def test_wsgi(self):
        from maitred.native_channel import Channel

        self._compare(Wsgi, _serve_wsgi(channel.Channel), _serve_wsgi(Channel), reads=False)

    def test_asgi(self):
        from maitred.native_session import Session

        self._compare(Asgi, _serve_asgi(asgi._Session), _serve_asgi(Session), reads=True)


if __name__ == "__main__":
    unittest.main()
