"""Fields behind the content of responses: `http.response.trailers` of ASGI."""

import importlib.util
import os
import shutil
import subprocess
import tempfile
import unittest
from unittest import mock

from maitred.frames import CLEAN, CLOSE, HEAD, HTTP10, KEEP
from tests.behind import Behind, needs_maitred, read_until
from tests.frames import request_frame
from tests.served import DEADLINE_S
from tests.test_asgi import END, Exchange, sending

TAKEN = b"early_hints=1\ntrailers=1\nqueue_us=1\n"
START = {"type": "http.response.start", "status": 200, "headers": [(b"trailer", b"X-Sum, X-B")], "trailers": True}


def behind(*fields, more=False):
    return {"type": "http.response.trailers", "headers": fields, "more_trailers": more}


SUM = behind((b"x-sum", b"42"))


def exchange(*messages, meta=TAKEN, flags=KEEP):
    return Exchange(sending(*messages), request_frame(5, 0, descriptors=1, meta=meta, flags=flags))


class Trailers(unittest.TestCase):
    def test_they_follow_the_last_chunk(self):
        for body in ([b"abc", END], [{**END, "body": b"abc"}]):
            found = exchange(START, *body, behind((b"x-sum", b"42"), more=True), behind((b"X-B", b" c ")))
            self.assertEqual(found.body, b"3\r\nabc\r\n0\r\nx-sum: 42\r\nX-B: c\r\n\r\n")
            self.assertEqual((found.done.flags, found.done.status, found.done.body_bytes), (CLEAN, 200, 3))
            self.assertIn("trailer: X-Sum, X-B", found.lines)
            self.assertIn("Transfer-Encoding: chunked", found.lines)
        found = exchange(START, END, SUM)
        self.assertEqual((found.body, found.done.flags), (b"0\r\nx-sum: 42\r\n\r\n", CLEAN))
        found = exchange(START, b"abc", END, behind())
        self.assertEqual((found.body, found.done.flags), (b"3\r\nabc\r\n0\r\n\r\n", CLEAN))

    def test_the_extension_is_there_for_clients_that_take_them(self):
        async def application(scope, receive, send):
            if scope["type"] == "http":
                names = " ".join(scope["extensions"])
                await sending({**START, "trailers": False}, {**END, "body": names.encode()})(scope, receive, send)

        for meta, offered in ((TAKEN, True), (b"trailers=0\n", False), (b"queue_us=1\n", False)):
            found = Exchange(application, request_frame(5, 0, descriptors=1, meta=meta))
            self.assertEqual(b"http.response.trailers" in found.body, offered)
            self.assertNotIn("trailer: X-Sum, X-B", found.lines)

    def test_elsewhere_they_are_dropped(self):
        whole, pieces = [{**END, "body": b"abc"}], [b"abc", END]
        last = [behind((b"x-sum", b"42"), more=True), SUM]
        for options in ({"meta": b"queue_us=1\n"}, {"flags": KEEP | HTTP10}, {"flags": KEEP | HEAD}):
            for body in (whole, pieces):
                found = exchange(START, *body, *last, **options)
                self.assertEqual((found.done.status, found.done.flags & (CLEAN | CLOSE) > 0), (200, True), options)
                self.assertNotIn(b"x-sum", found.raw.lower())
                self.assertEqual(found.log.getvalue(), "")
        found = exchange(START, *whole, SUM, meta=b"queue_us=1\n")
        self.assertIn("Content-Length: 3", found.lines)
        for status in (204, 304):
            found = exchange({**START, "status": status}, END, SUM)
            self.assertEqual((found.body, found.done.status, found.done.flags), (b"", status, CLEAN))

    def test_a_stated_length_is_still_kept_to(self):
        stated = {**START, "headers": [(b"content-length", b"3")]}
        found = exchange(stated, b"ab", {**END, "body": b"c"}, SUM)
        self.assertEqual(found.body, b"2\r\nab\r\n1\r\nc\r\n0\r\nx-sum: 42\r\n\r\n")
        self.assertNotIn("content-length", found.head.decode().lower())
        for body in (b"ab", b"abcd"):
            found = exchange(stated, body, END, SUM)
            self.assertEqual((found.done.status, found.done.flags), (200, 0))
            self.assertNotIn(b"x-sum", found.raw)

    def test_what_may_not_stand_there_is_left_out(self):
        names = (b"Content-Length", b"transfer-encoding", b"Set-Cookie", b"Host", b"location")
        found = exchange(START, b"a", END, behind(*((name, b"1") for name in names), (b"etag", b"x")))
        self.assertEqual((found.body, found.done.flags), (b"1\r\na\r\n0\r\netag: x\r\n\r\n", CLEAN))

    def test_there_are_bounds(self):
        for fields, kept in (
            ([(b"x", b"")] * 32, 32),
            ([(b"x", b"")] * 33, 0),
            ([(b"x", b"y" * 8185)], 1),
            ([(b"x", b"y" * 8186)], 0),
        ):
            found = exchange(START, b"a", END, behind(*fields[:1], more=True), behind(*fields[1:]))
            self.assertEqual((found.body.count(b"\r\nx: "), found.done.flags), (kept, CLEAN))

    def test_what_cannot_be_sent_breaks_the_response(self):
        for field in ((b"x", b"a\r\nb: c"), (b"x y", b"a"), (b"x", 7)):
            found = exchange(START, b"a", END, behind(field))
            self.assertEqual((found.done.status, found.done.flags, found.body), (200, 0, b"1\r\na\r\n"))

    def test_out_of_turn(self):
        for messages in (
            ({**START, "trailers": False}, b"a", SUM),
            (START, b"a", SUM, END),
            (START, b"a", END, {**END, "body": b"more"}),
            (START, b"a", END),
        ):
            found = exchange(*messages)
            self.assertEqual((found.done.status, found.done.flags, found.body), (200, 0, b"1\r\na\r\n"), messages)
            self.assertIn("the application failed", found.log.getvalue())

    def test_a_response_that_names_a_file_has_none(self):
        with tempfile.NamedTemporaryFile() as file, mock.patch.dict(os.environ, MAITRED_PATHSEND="1"):
            file.write(b"content")
            file.flush()
            path = {"type": "http.response.pathsend", "path": file.name}
            root = b"trailers=1\nsendfile_root=%b\n" % tempfile.gettempdir().encode()
            named = {**START, "headers": [(b"x-sendfile", file.name.encode())]}
            for messages in ((START, path, SUM), (named, END, SUM), (named, b"a", END, SUM)):
                found = exchange(*messages, meta=root)
                self.assertEqual((found.body, found.done.flags), (b"content", CLEAN))
                self.assertIn("Content-Length: 7", found.lines)
            for before in ([b"abc"], [b"abc", END]):
                found = exchange(START, *before, path, meta=root)
                self.assertEqual((found.body, found.done.flags), (b"3\r\nabc\r\n", 0), "no second head")


SOURCE = """
async def app(scope, receive, send):
    assert scope["type"] == "http"
    headers = [(b"trailer", b"x-sum")]
    await send({"type": "http.response.start", "status": 200, "headers": headers, "trailers": True})
    for piece in (b"some ", b"body"):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body"})
    await send({"type": "http.response.trailers", "headers": [(b"x-sum", b"42"), (b"content-length", b"1")]})
"""


@needs_maitred
class BehindMaitred(unittest.TestCase):
    def test_clients_of_http_1_that_take_them(self):
        self.clients_of_http_1("asgi")

    @unittest.skipUnless(importlib.util.find_spec("uvicorn"), "uvicorn is not installed")
    def test_clients_of_http_1_with_uvicorn(self):
        self.clients_of_http_1("uvicorn")

    def clients_of_http_1(self, kind):
        for transport in ("direct", "relay"):
            with Behind(SOURCE, kind, transport) as server:
                with server.open("/", "TE: trailers") as client:
                    seen = read_until(client, b"\r\n0\r\nx-sum: 42\r\n\r\n")
                    self.assertIn(b"\r\ntrailer: x-sum\r\n", seen)
                with server.open("/") as client:
                    seen = read_until(client, b"body")
                    seen += read_until(client, b"0\r\n\r\n") if not seen.endswith(b"0\r\n\r\n") else b""
                    self.assertNotIn(b"x-sum", seen)

    @unittest.skipUnless(shutil.which("curl"), "no curl")
    def test_clients_of_http_2(self):
        for transport in ("direct", "relay"):
            with Behind(SOURCE, "asgi", transport) as server:
                words = ["curl", "-sv", "--http2-prior-knowledge", "--max-time", str(DEADLINE_S), server.url]
                asked = subprocess.run(words, capture_output=True, check=True)
                self.assertEqual(asked.stdout, b"some body")
                _, _, after = asked.stderr.partition(b"< \r\n")
                self.assertIn(b"< x-sum: 42", after, asked.stderr)
                self.assertNotIn(b"content-length", asked.stderr)


if __name__ == "__main__":
    unittest.main()
