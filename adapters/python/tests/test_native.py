"""The compiled part beside Python's: the same frames, and the same application, make the same environment and the same response."""

import asyncio
import contextlib
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
from tests.frames import WELCOME_FRAME, Reported, request_frame

_SEEDS = range(int(os.environ.get("MAITRED_CASES", "400")))
_NAMES = ("accept", "cookie", "x-a", "x-b", "x_c", "content-type", "user-agent", "x-forwarded-for", "if-none-match")
_VALUES = ("", "a", "a=b; c", "text/html", "ä".encode("latin-1").decode("latin-1"), "x: y", "1, 2", "\t inner \t tab")
_PATHS = ("/", "/a/b", "/a%20b", "/%C3%A4", "/%e4", "/%zz%4", "/mount", "/mount/x%2fy", "/mounted", "//x", "*")
_QUERIES = ("", "?", "?a=b", "?a=%20&b", "?ä".encode("latin-1").decode("latin-1"), "??")
_METAS = (
    b"remote=192.0.2.7:50000\nlocal=198.51.100.1:80\nscheme=http\nqueue_us=40\n",
    b"remote=[2001:db8::1]:1\nlocal=0.0.0.0:443\nscheme=https\nmount=/mount\nqueue_us=1\n",
    b"remote=192.0.2.7:0\nlocal=[::1]:443\nscheme=https\nearly_hints=1\ntrailers=1\nserver_header=0\nqueue_us=0\n",
    b"remote=192.0.2.7:1\nlocal=192.0.2.8:80\nscheme=http\nuser=\xc3\xa4=b c\nauth_type=Basic\nqueue_us=0\n",
    b"",
)
_STATUSES = (200, 200, 200, 201, 204, 304, 404, 426, 500, 599, 299)
_FIELDS = (
    ("Content-Type", "text/plain"), ("X-A", " padded\t"), ("x-b", ""), ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("Server", "x"),
    ("Connection", "x-a"), ("Upgrade", "h2c"), ("Set-Cookie", "a=b"), ("Set-Cookie", "ä"), ("Transfer-Encoding", "chunked"),
    ("Bad Name", "x"), ("X-Bad", "a\r\nb: c"), ("Content-Length", "5"), ("Content-Length", "0"), ("content-length", "nine"),
    ("Content-Length", " 5 "), ("Trailer", "x"), ("X-Sendfile", "/nowhere"), ("Keep-Alive", "1"), ("", "x"),
)  # fmt: skip
_PIECES = (b"", b"a", b"abcde", b"x" * 3000, b"y" * 20_000)
_REST = re.compile(rb"(?i)(date: )[^\r]*")


class Case:
    """A request and an answer, by chance."""

    def __init__(self, seed):
        self.random = chance = random.Random(seed)
        names = [chance.choice(_NAMES) for _ in range(chance.randrange(7))]
        fields = "".join(f"{name}: {chance.choice(_VALUES).strip()}\r\n" for name in names)
        self.fields = f"{fields}x-request-id: {seed}\r\nx-request-start: t=1\r\n"
        self.target = chance.choice(_PATHS) + chance.choice(_QUERIES)
        self.method = chance.choice(("GET", "GET", "POST", "HEAD", "M-SEARCH"))
        flags = (KEEP if chance.random() < 0.8 else 0) | (HTTP10 if chance.random() < 0.2 else 0)
        self.flags = flags | (HEAD if self.method == "HEAD" else 0)
        self.meta = chance.choice(_METAS)
        self.body = chance.choice((b"", b"", b"abc"))
        self.status = chance.choice(_STATUSES)
        self.answered = [chance.choice(_FIELDS) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
        self.pieces = [chance.choice(_PIECES) for _ in range(chance.choice((0, 1, 1, 2, 4)))]
        self.form = chance.choice(("list", "list", "tuple", "generator", "write", "fails", "late", "text"))
        self.seen = None

    def frame(self):
        """REQUEST."""
        return request_frame(5, 7, self.target, self.method, self.flags, self.body, 1, self.meta, fields=self.fields)

    def wsgi(self, environ, start_response):
        """As the application of WSGI."""
        self.seen = {key: value for key, value in environ.items() if isinstance(value, (str, bool, tuple))}
        self.seen["body"] = environ["wsgi.input"].read()
        if self.form == "fails":
            raise RuntimeError("on purpose")
        write = start_response(f"{self.status} Reason", list(self.answered))
        if self.form == "write":
            write(b"written")
        if self.form == "text":
            return ["text"]
        if self.form in ("generator", "late"):
            return self._generated()
        return tuple(self.pieces) if self.form == "tuple" else list(self.pieces)

    def _generated(self):
        yield from self.pieces
        if self.form == "late":
            raise RuntimeError("on purpose, late")

    async def asgi(self, scope, receive, send):
        """As the application of ASGI."""
        if scope["type"] != "http":
            return
        self.seen = scope, await receive()
        if self.form == "fails":
            raise RuntimeError("on purpose")
        fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.answered]
        await send({"type": "http.response.start", "status": self.status, "headers": fields})
        last = self.pieces[-1] if self.pieces else b""
        for piece in self.pieces[:-1]:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if self.form == "late":
            raise RuntimeError("on purpose, late")
        await send({"type": "http.response.body", "body": last})


class Answer:
    """What came of one case: the bytes on the response descriptor, the reports, and what the application saw."""

    def __init__(self, case, serve):
        ours, theirs = socket.socketpair()
        near, far = socket.socketpair()
        far.setblocking(False)
        socket.send_fds(ours, [WELCOME_FRAME + case.frame()], [far.fileno()])
        ours.shutdown(socket.SHUT_WR)
        far.close()
        log, found = io.StringIO(), []
        listener = threading.Thread(target=lambda: found.append(Reported(ours)))
        listener.start()
        with contextlib.redirect_stderr(log):
            serve(theirs, case)
        theirs.close()
        listener.join()
        sent = b""
        while data := near.recv(65536):
            sent += data
        near.close()
        ours.close()
        reported = found[0]
        self.bytes = _REST.sub(rb"\1-", sent + reported.tail)
        self.dones = reported.dones
        self.seen = case.seen
        # The last line says what went wrong; where, is the form's own.
        self.failures = [line for line in log.getvalue().split("\n") if re.match(r"[A-Za-z.]+(Error|Exception)?: ", line)]

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __repr__(self):
        return f"{vars(self)}"


def _serve_wsgi(kind):
    def serve(sock, case):
        worker = kind(sock)
        wsgi.serve(worker, case.wsgi)
        worker.close()

    return serve


def _serve_asgi(kind):
    def serve(sock, case):
        with mock.patch.object(asgi, "_session_class", lambda: kind):
            asyncio.run(asgi.Worker(case.asgi).main(sock, 100, "test"))

    return serve


@unittest.skipIf(native.library is None, f"there is no compiled part: {native.why_not}")
class Differential(unittest.TestCase):
    maxDiff = None

    def test_wsgi_is_the_same_in_both_forms(self):
        from maitred.native_channel import Channel

        for seed in _SEEDS:
            with self.subTest(seed=seed):
                pure = Answer(Case(seed), _serve_wsgi(channel.Channel))
                self.assertEqual(Answer(Case(seed), _serve_wsgi(Channel)), pure)

    def test_asgi_is_the_same_in_both_forms(self):
        from maitred.native_session import Session

        for seed in _SEEDS:
            with self.subTest(seed=seed):
                pure = Answer(Case(seed), _serve_asgi(asgi._Session))
                self.assertEqual(Answer(Case(seed), _serve_asgi(Session)), pure)


if __name__ == "__main__":
    unittest.main()
