"""WSGI applications that treat the compiled part badly: what runs while it is at work, what is kept, what lies."""

import contextlib
import io
import os
import socket
import threading
import unittest
from unittest import mock

from maitred import native, response, tail, wsgi
from maitred.frames import KEEP
from tests.frames import WELCOME_FRAME, Done, Reported, request_frame, small_pair

TEXT = [("Content-Type", "text/plain")]


class Run:
    """Frames answered by an application: the bytes on the response descriptor, the reports, and the log."""

    def __init__(self, application, *frames, descriptors=(), reads=True, during=lambda ours, near: None):
        ours, theirs = socket.socketpair()
        near, far = small_pair()
        frames = frames or (request_frame(5, 7, descriptors=1),)
        socket.send_fds(ours, [WELCOME_FRAME + b"".join(frames)], [far.fileno(), *descriptors])
        far.close()
        log, found = io.StringIO(), []
        listener = threading.Thread(target=lambda: found.append(Reported(ours)))
        helper = threading.Thread(target=during, args=(ours, near))
        if reads:
            ours.shutdown(socket.SHUT_WR)
        listener.start()
        helper.start()
        with contextlib.redirect_stderr(log):
            worker = wsgi.Channel(theirs)
            try:
                wsgi.serve(worker, application)
            finally:
                worker.close()
        helper.join()
        listener.join()
        self.sent = b""
        with contextlib.suppress(ConnectionResetError):
            while data := near.recv(65536):
                self.sent += data
        near.close()
        ours.close()
        self.log, self.dones = log.getvalue(), found[0].dones
        self.sent += found[0].tail
        self.head, _, self.body = self.sent.partition(b"\r\n\r\n")


HEAD_FRAME = request_frame(5, 7, method="HEAD", flags=KEEP, descriptors=1)


class Reentered(unittest.TestCase):
    """Code of the application that runs while the adapter is at work comes back to it."""

    def test_fields_of_a_hint_begin_the_response(self):
        def application(environ, start_response):
            def fields():
                start_response("200 OK", TEXT)(b"abc")
                yield "Link", "</a>"

            environ["wsgi.early_hints"](fields())
            return []

        found = Run(application, request_frame(5, 7, descriptors=1, meta=b"early_hints=1\nqueue_us=0\n"))
        self.assertEqual(found.dones, [Done(1, 7, 200, 3)], found.log)
        self.assertNotIn(b"103", found.sent)

    def test_the_name_of_a_field(self):
        seen = []

        def application(environ, start_response):
            class Name(str):
                def __hash__(self):
                    with contextlib.suppress(RuntimeError):
                        start_response("201 Created", TEXT)
                    seen.append(1)
                    return super().__hash__()

            # What concerns the connection is not answered by the compiled part alone.
            start_response("200 OK", [(Name("X-A"), "1"), ("Connection", "close")])
            return [b"abc"]

        found = Run(application)
        self.assertEqual(found.dones, [Done(1, 7, 200, 3)], found.log)
        self.assertTrue(seen)

    def test_a_finalizer_of_fields_that_are_replaced(self):
        seen = []

        def application(environ, start_response):
            class Value(str):
                def __del__(self):
                    try:
                        start_response("201 Created", TEXT)
                    except BaseException as error:
                        seen.append(type(error))

            start_response("200 OK", [("X-A", Value("1"))])
            start_response("404 Not Found", TEXT, (ValueError, ValueError("x"), None))
            return [b"abc"]

        found = Run(application)
        self.assertEqual((found.dones, seen), ([Done(1, 7, 404, 3)], [RuntimeError]))

    def test_another_thread_writes_while_one_waits_for_the_client(self):
        wrong = []

        def application(environ, start_response):
            write = start_response("200 OK", TEXT)

            def other():
                try:
                    write(b"")
                    start_response("201 Created", TEXT)
                except BaseException as error:
                    wrong.append(type(error))

            class Slow(tail.Tail):
                def write(self, data):
                    thread = threading.Thread(target=other)
                    thread.start()
                    thread.join()
                    super().write(data)

            # Both forms look it up.
            with mock.patch.object(tail, "Tail", Slow), mock.patch.object(response, "Tail", Slow):
                for _ in range(20):
                    write(b"x" * 100_000)
            return []

        found = Run(application)
        self.assertEqual({error.__name__ for error in wrong} - {"RuntimeError"}, set(), found.log)
        self.assertEqual(found.dones, [Done(1, 7, 200, 2_000_000)])


class Kept(unittest.TestCase):
    """What an application keeps, and changes, when it was handed over."""

    def test_write_of_an_earlier_request(self):
        kept = []

        def application(environ, start_response):
            fields = [*TEXT, ("Connection", "close")] if environ["PATH_INFO"] == "/unusual" else TEXT
            kept.append(start_response("200 OK", fields))
            for write in kept[:-1]:
                with contextlib.suppress(RuntimeError):
                    write(b"stale")
            yield b"a"
            yield b"b"

        frames = [request_frame(5, 0, "/unusual", descriptors=1), request_frame(5, 1), request_frame(5, 2)]
        found = Run(application, *frames)
        self.assertEqual([done.flags for done in found.dones], [1, 1, 1], found.log)
        self.assertNotIn(b"stale", found.sent)

    def test_fields_that_change_after_they_were_said(self):
        def application(environ, start_response):
            fields = [("X-A", "1")]
            start_response("200 OK", fields)
            fields[:] = [("X-B", "2")]
            return [b"abc"]

        found = Run(application, HEAD_FRAME)
        self.assertIn(b"\r\nX-A: 1\r\n", found.head)
        self.assertNotIn(b"X-B", found.head)
        self.assertIn(b"Content-Length: 3", found.sent)

    def test_a_head_that_may_not_be_sent_leaves_the_one_before(self):
        def application(environ, start_response):
            start_response("200 OK", TEXT)
            with contextlib.suppress(ValueError):
                start_response("404 Not Found", [("Bad Name", "x")], (ValueError, ValueError("x"), None))
            return [b"abc"]

        found = Run(application)
        self.assertEqual(found.dones, [Done(1, 7, 200, 3)], found.log)

    def test_start_response_keeps_no_descriptor_of_a_body(self):
        kept = []
        with open("/dev/null", "rb") as file:
            before = len(os.listdir("/proc/self/fd"))

            def application(environ, start_response):
                kept.append(start_response)
                start_response("200 OK", TEXT)
                return [environ["wsgi.input"].read()]

            frame = request_frame(5, 7, spooled=0, descriptors=1)
            found = Run(application, frame, descriptors=[file.fileno()])
            self.assertEqual(found.dones, [Done(1, 7, 200, 0)], found.log)
            self.assertEqual(len(os.listdir("/proc/self/fd")), before)


class Failures(unittest.TestCase):
    def test_a_request_line_that_is_none_ends_no_process(self):
        head = b"GET /\r\nhost: x\r\n\r\n"
        odd = request_frame(5, 7, descriptors=1, meta=b"")
        payload = (0).to_bytes(4, "little") + len(head).to_bytes(4, "little") + bytes(4) + head
        odd = len(payload).to_bytes(4, "little") + odd[4:16] + payload

        def application(environ, start_response):
            start_response("200 OK", TEXT)
            return [b"abc"]

        found = Run(application, odd, request_frame(5, 8))
        self.assertEqual([done.status for done in found.dones], [500, 200])
        self.assertIn("ValueError", found.log)

    def test_the_log_names_the_request_that_has_failed(self):
        """Also if the next one has come meanwhile, because the application waited for a client."""
        came = threading.Event()

        def during(ours, near):
            ours.sendall(request_frame(5, 8, "/second" + "x" * 200))
            ours.shutdown(socket.SHUT_WR)
            came.set()

        def application(environ, start_response):
            write = start_response("200 OK", TEXT)
            if environ["PATH_INFO"] == "/first":
                came.wait(10)
                # As tail.Tail does while it waits.
                self.assertFalse(workers[0].is_cancelled(5, 7))
                write(b"a")
                raise ValueError("on purpose")
            return [b"abc"]

        kind, workers = wsgi.Channel, []

        def made(sock):
            workers.append(kind(sock))
            return workers[0]

        with mock.patch.object(wsgi, "Channel", made):
            found = Run(application, request_frame(5, 7, "/first", descriptors=1), reads=False, during=during)
        self.assertIn("GET /first", found.log)
        self.assertNotIn("AssertionError", found.log)

    def test_what_close_raises_is_told_when_the_client_has_gone(self):
        class Result(list):
            def __iter__(self):
                raise tail.ClientGone

            def close(self):
                raise ValueError("close on purpose")

        def application(environ, start_response):
            start_response("200 OK", TEXT)
            return Result([b"a", b"b"])

        self.assertIn("close on purpose", Run(application).log)

    def test_a_length_that_raises(self):
        class Result:
            def __len__(self):
                raise KeyError("len on purpose")

            def __iter__(self):
                return iter([b"a"])

        def application(environ, start_response):
            start_response("200 OK", TEXT)
            return Result()

        found = Run(application)
        self.assertEqual([done.status for done in found.dones], [500])
        self.assertIn("len on purpose", found.log)


@unittest.skipIf(native.library is None, f"there is no compiled part: {native.why_not}")
class Compiled(unittest.TestCase):
    def test_these_tests_run_it(self):
        self.assertTrue(issubclass(wsgi.Channel, native.library.Channel))


if __name__ == "__main__":
    unittest.main()
