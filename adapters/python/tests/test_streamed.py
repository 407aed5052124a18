"""Bodies that come while the application runs (BODY_STREAM)."""

import asyncio
import socket
import threading
import unittest

from maitred import asgi, wsgi
from maitred.wsgi import Channel as WorkerChannel
from maitred.frames import BODY_FD, BODY_STREAM, CLEAN, KEEP, MAY_DETACH, Decoder, ProtocolError
from maitred.streamed import BodyLost, StreamedBody
from tests.frames import WELCOME_FRAME, cancel_frame, request_frame
from tests.served import DEADLINE_S, Channel

META = b"remote=192.0.2.7:999\nscheme=http\n"
LENGTH, CHUNKED = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n", b"POST / HTTP/1.1\r\nhost: h\r\n\r\n"


def stream_frame(request, length=None, meta=META, flags=KEEP | BODY_STREAM):
    """A REQUEST whose body follows on its descriptor, which comes along."""
    return request_frame(request, request, "/", "POST", flags, descriptors=1, meta=meta, announced=length)


def body_of(pieces, head):
    """What a reader makes of pieces, each of which it sees alone; or the error."""
    near, far = socket.socketpair()
    with near, far:
        far.setblocking(False)
        left = iter(pieces)

        def more():
            piece = next(left, None)
            if piece is None:
                near.shutdown(socket.SHUT_WR)
            else:
                near.sendall(piece)

        raw, found = StreamedBody(far.fileno(), META, head, lambda: None, more), b""
        while piece := raw.read(7):
            found += piece
        return found


class Reader(unittest.TestCase):
    def test_bodies_of_known_length_end_with_their_last_byte(self):
        self.assertEqual(body_of([b"he", b"llo"], LENGTH % 5), b"hello")
        self.assertEqual(body_of([], LENGTH % 0), b"")
        for pieces in ([], [b"hell"]):
            with self.assertRaises(BodyLost):
                body_of(pieces, LENGTH % 5)

    def test_bodies_in_chunks_end_with_the_last_chunk_wherever_they_are_cut(self):
        data = b"5\r\nhello\r\n10\r\n" + b"x" * 16 + b"\r\n0\r\nx-sum: 17\r\ny: z\r\n\r\n"
        whole = b"hello" + b"x" * 16
        self.assertEqual(body_of([data[at : at + 1] for at in range(len(data))], CHUNKED), whole)
        for at in range(1, len(data)):
            self.assertEqual(body_of([data[:at], data[at:]], CHUNKED), whole)
            with self.assertRaises(BodyLost, msg=at):
                body_of([data[:at]], CHUNKED)

    def test_what_are_no_chunks_is_an_error(self):
        for data in (b"\r\n", b"x\r\n", b"-1\r\n", b"5;a\r\nhello\r\n", b"1" * 40, b"0\r\n" + b"x" * 9000):
            with self.assertRaises(BodyLost, msg=data):
                body_of([data], CHUNKED)


class Flags(unittest.TestCase):
    def test_a_body_comes_in_one_way(self):
        def entry(data):
            decoder = Decoder()
            decoder.feed(WELCOME_FRAME + data, [9])
            return decoder.next()

        self.assertEqual(entry(stream_frame(1, 5))[3], KEEP | BODY_STREAM)
        for other in (BODY_FD, MAY_DETACH, 64):
            with self.assertRaises(ProtocolError):
                entry(stream_frame(1, 5, flags=BODY_STREAM | other))
        with self.assertRaises(ProtocolError):
            entry(request_frame(1, 1, flags=BODY_STREAM, body=b"x", descriptors=1))


class Served(unittest.TestCase):
    """A worker in a thread of this process, and Maitred's side here."""

    def serve(self, run):
        near, far = socket.socketpair()

        def serve():
            with far:
                run(far)

        self._thread = threading.Thread(target=serve, daemon=True)
        self._thread.start()
        self.channel = Channel(near)
        self.addCleanup(self._end)

    def _end(self):
        self.channel.close()
        self._thread.join(DEADLINE_S)
        self.assertFalse(self._thread.is_alive())

    def serve_wsgi(self, application):
        self.serve(lambda sock: wsgi.serve(WorkerChannel(sock), application))

    def serve_asgi(self, application):
        async def main(sock):
            worker = asgi.Worker(application)
            session = asgi._Session(worker, asyncio.get_running_loop(), sock)
            session.channel.start(10, "tests")
            await session.channel.ended
            await session.close()

        self.serve(lambda sock: asyncio.run(main(sock)))

    def send(self, request=1, length=None, meta=META):
        near, far = socket.socketpair()
        self.addCleanup(near.close)
        far.setblocking(False)
        near.settimeout(DEADLINE_S)
        socket.send_fds(self.channel.socket, [stream_frame(request, length, meta)], [far.fileno()])
        far.close()
        return near

    def until(self, sock, end):
        data = b""
        while not data.endswith(end):
            piece = sock.recv(65536)
            self.assertTrue(piece, data)
            data += piece
        return data


def echo(environ, start_response):
    """Says each piece as it comes."""
    start_response("200 OK", [("X-Length", environ.get("CONTENT_LENGTH", "-"))])
    while piece := environ["wsgi.input"].read1(100):
        yield piece


class Wsgi(Served):
    def test_the_application_reads_what_has_come(self):
        self.serve_wsgi(echo)
        for request, length in enumerate((9, None), 1):
            near = self.send(request, length)
            near.sendall(b"some" if length else b"4\r\nsome\r\n")
            said = self.until(near, b"4\r\nsome\r\n")
            self.assertIn(b"X-Length: " + (b"9" if length else b"-") + b"\r\n", said)
            near.sendall(b"thing" if length else b"5\r\nthing\r\n0\r\n\r\n")
            self.assertEqual(self.until(near, b"0\r\n\r\n"), b"5\r\nthing\r\n0\r\n\r\n")
            self.assertEqual(self.channel.done()[:3], (CLEAN, request, 200))

    def test_the_client_is_asked_when_the_application_reads(self):
        def late(environ, start_response):
            if "no" in environ["PATH_INFO"]:
                start_response("403 Forbidden", [])
                return [b""]
            body = environ["wsgi.input"].read()
            start_response("200 OK", [])
            return [body]

        self.serve_wsgi(late)
        near = self.send(1, 5, META + b"continue=1\n")
        self.assertEqual(self.until(near, b"\r\n\r\n"), b"HTTP/1.1 100 Continue\r\n\r\n")
        near.sendall(b"hello")
        self.assertTrue(self.until(near, b"hello").startswith(b"HTTP/1.1 200 "))
        self.assertEqual(self.channel.done()[:3], (CLEAN, 1, 200))

    def test_a_body_that_is_broken_off_is_an_error_and_no_end(self):
        seen = []

        def reader(environ, start_response):
            try:
                environ["wsgi.input"].read()
            except OSError as error:
                seen.append(error)
                raise
            start_response("200 OK", [])
            return [b"whole"]

        self.serve_wsgi(reader)
        near = self.send(1, 5)
        near.sendall(b"hell")
        near.shutdown(socket.SHUT_WR)
        self.assertEqual(self.channel.done()[:3], (0, 1, 0))
        self.assertIsInstance(seen[0], BodyLost)
        near = self.send(2, None)
        near.sendall(b"5\r\nhello\r\n")
        near.shutdown(socket.SHUT_WR)
        self.assertEqual(self.channel.done()[:3], (0, 2, 0))
        near = self.send(3, 5)
        near.sendall(b"hello")
        self.until(near, b"whole")
        self.assertEqual(self.channel.done()[:3], (CLEAN, 3, 200))

    def test_a_report_does_not_wait_for_a_client(self):
        self.serve_wsgi(echo)
        first, second = self.send(1, 1), self.send(2, 1)
        first.sendall(b"x")
        # It is told although the worker is at the next request, of which nothing has come.
        self.assertEqual(self.channel.done()[:3], (CLEAN, 1, 200))
        second.sendall(b"x")
        self.assertEqual(self.channel.done()[:3], (CLEAN, 2, 200))

    def test_an_application_need_not_read_the_body(self):
        def early(environ, start_response):
            start_response("200 OK", [])
            return [b"early"]

        self.serve_wsgi(early)
        near = self.send(1, 5, META + b"continue=1\n")
        self.assertTrue(self.until(near, b"early").startswith(b"HTTP/1.1 200 "))
        self.assertEqual(self.channel.done()[:3], (CLEAN, 1, 200))


class Asgi(Served):
    def start(self):
        self.messages = []
        self.heard = threading.Condition()

        async def application(scope, receive, send):
            while True:
                message = await receive()
                with self.heard:
                    self.messages.append(message)
                    self.heard.notify_all()
                if not message.get("more_body"):
                    break
            if message["type"] == "http.request":
                await send({"type": "http.response.start", "status": 200})
                await send({"type": "http.response.body", "body": b"whole"})

        self.serve_asgi(application)

    def hear(self, *messages):
        expected = [
            {"type": "http.request", "body": body, "more_body": more} if body is not None else {"type": "http.disconnect"}
            for body, more in messages
        ]
        with self.heard:
            self.heard.wait_for(lambda: len(self.messages) >= len(expected), DEADLINE_S)
            found, self.messages = self.messages, []
        self.assertEqual(found, expected)

    def test_pieces_come_as_messages(self):
        self.start()
        near = self.send(1, 9)
        near.sendall(b"some")
        self.hear((b"some", True))
        near.sendall(b"thing")
        self.hear((b"thing", False))
        self.until(near, b"whole")
        self.assertEqual(self.channel.done()[:3], (CLEAN, 1, 200))
        near = self.send(2, None, META + b"continue=1\n")
        self.assertEqual(self.until(near, b"\r\n\r\n"), b"HTTP/1.1 100 Continue\r\n\r\n")
        near.sendall(b"4\r\nsome\r\n")
        self.hear((b"some", True))
        near.sendall(b"0\r\n\r\n")
        self.hear((b"", False))
        self.until(near, b"whole")
        self.assertEqual(self.channel.done()[:3], (CLEAN, 2, 200))

    def test_a_body_that_is_broken_off_is_a_disconnect(self):
        self.start()
        for request, length in enumerate((9, None), 1):
            near = self.send(request, length)
            near.sendall(b"some" if length else b"4\r\nsome\r\n")
            self.hear((b"some", True))
            near.shutdown(socket.SHUT_WR)
            self.hear((None, None))
            self.assertEqual(self.channel.done()[:3], (0, request, 0))

    def test_cancel_ends_a_wait_for_the_body(self):
        self.start()
        near = self.send(1, 9)
        near.sendall(b"some")
        self.hear((b"some", True))
        self.channel.socket.sendall(cancel_frame(1, 1))
        self.hear((None, None))
        self.assertEqual(self.channel.done()[:3], (0, 1, 0))

    def test_an_early_answer_ends_a_wait_for_the_body(self):
        done = threading.Event()

        async def application(scope, receive, send):
            waiting = asyncio.ensure_future(receive())
            await asyncio.sleep(0)
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"early"})
            self.assertEqual(await waiting, {"type": "http.disconnect"})
            done.set()

        self.serve_asgi(application)
        near = self.send(1, 9)
        self.until(near, b"early")
        self.assertEqual(self.channel.done()[:3], (CLEAN, 1, 200))
        self.assertTrue(done.wait(DEADLINE_S))


if __name__ == "__main__":
    unittest.main()
