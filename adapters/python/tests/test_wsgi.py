"""The adapter in one process: requests go in at one socketpair, responses come out at another."""

import contextlib
import io
import os
import socket
import sys
import threading
import unittest
from wsgiref.validate import validator

from maitred import channel as channel_module
from maitred.channel import CLEAN, CLOSE, HTTP10, KEEP, Channel, ProtocolError
from maitred.wsgi import serve
from tests import reference
from tests.frames import WELCOME_FRAME, forget_frame, read_dones, request_frame

HTML = [("Content-Type", "text/html")]


class Exchange:
    """Runs an application on requests until the end of the channel; keeps what came out."""

    def __init__(self, application, *targets, flags=KEEP, method="GET", body=b"", meta=None):
        ours, theirs = socket.socketpair()
        near, far = socket.socketpair()
        far.setblocking(False)
        worker = Channel(theirs)
        frames = WELCOME_FRAME
        for number, target in enumerate(targets or ("/",)):
            frames += request_frame(5, number, target, method, flags, body, int(number == 0), meta)
        socket.send_fds(ours, [frames], [far.fileno()])
        ours.shutdown(socket.SHUT_WR)
        far.close()
        self.raw, self.log = b"", io.StringIO()
        reader = threading.Thread(target=self._read, args=(near,))
        reader.start()
        with contextlib.redirect_stderr(self.log):
            serve(worker, application)
        worker.close()
        reader.join()
        self.dones = read_dones(ours)
        near.close()
        ours.close()
        self.done = self.dones[0]
        self.head, _, self.body = self.raw.partition(b"\r\n\r\n")
        self.lines = self.head.decode("latin-1").split("\r\n")

    def _read(self, near):
        with contextlib.suppress(ConnectionResetError):
            while data := near.recv(65536):
                self.raw += data


def answering(body, headers=(), status="200 OK"):
    """An application that returns `body`."""

    def application(_, start_response):
        start_response(status, list(headers))
        return body

    return application


class Closing:
    """An iterable that notes when it is closed."""

    def __init__(self, pieces, length=None):
        self.pieces, self.closed, self.length = pieces, 0, length

    def __iter__(self):
        return iter(self.pieces)

    def __len__(self):
        if self.length is None:
            raise TypeError("no length")
        return self.length

    def close(self):
        self.closed += 1


class Framing(unittest.TestCase):
    def test_a_list_has_its_length_computed(self):
        for body in ([b"abc"], (b"a", b"bc"), [b"", b"abc", b""]):
            found = Exchange(answering(body, HTML))
            self.assertIn("Content-Length: 3", found.lines)
            self.assertEqual((found.body, found.done.flags, found.done.body_bytes), (b"abc", CLEAN, 3))

    def test_an_iterable_of_length_one_has_its_length_computed(self):
        found = Exchange(answering(Closing([b"abc"], 1)))
        self.assertIn("Content-Length: 3", found.lines)

    def test_a_generator_is_chunked(self):
        found = Exchange(answering(piece for piece in (b"abc", b"", b"de")))
        self.assertIn("Transfer-Encoding: chunked", found.lines)
        self.assertEqual(found.body, b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")

    def test_a_generator_without_pieces_is_empty(self):
        found = Exchange(answering(iter(())))
        self.assertIn("Content-Length: 0", found.lines)
        self.assertEqual(found.done.flags, CLEAN)

    def test_http10_is_delimited_by_close(self):
        found = Exchange(answering(iter([b"abc"])), flags=KEEP | HTTP10)
        self.assertIn("Connection: close", found.lines)
        self.assertEqual((found.body, found.done.flags), (b"abc", CLOSE))

    def test_a_stated_length_is_kept_over_pieces(self):
        found = Exchange(answering(iter([b"abc", b"de"]), [("Content-Length", "5")]))
        self.assertEqual((found.body, found.done.flags), (b"abcde", CLEAN))

    def test_pieces_over_the_stated_length_are_cut(self):
        found = Exchange(answering(iter([b"abc", b"de"]), [("Content-Length", "4")]))
        self.assertEqual((found.body, found.done.flags), (b"abcd", 0))
        self.assertIn("more bytes than it stated", found.log.getvalue())

    def test_pieces_below_the_stated_length_break_the_response(self):
        found = Exchange(answering(iter([b"abc"]), [("Content-Length", "4")]))
        self.assertEqual((found.body, found.done.flags), (b"abc", 0))

    def test_204_drops_a_body_and_its_length(self):
        found = Exchange(answering([b"abc"], [("Content-Length", "3")], "204 No Content"))
        self.assertEqual((found.body, found.done.flags), (b"", CLEAN))
        self.assertNotIn("content-length", found.head.decode().lower())

    def test_head_has_the_length_of_get(self):
        for body in ([b"abc"], Closing([b"abc"], 1)):
            found = Exchange(answering(body), method="HEAD")
            self.assertIn("Content-Length: 3", found.lines)
            self.assertEqual((found.body, found.done.flags), (b"", CLEAN))

    def test_head_of_pieces_has_no_body(self):
        found = Exchange(answering(iter([b"abc", b"de"])), "/", "/", method="HEAD")
        self.assertEqual(found.raw.count(b"HTTP/1.1 200 OK"), 2)
        self.assertNotIn(b"abc", found.raw)
        self.assertEqual([done.flags for done in found.dones], [CLEAN, CLEAN])

    def test_a_file_comes_whole(self):
        data = os.urandom(300_000)

        def application(environ, start_response):
            start_response("200 OK", [("Content-Length", str(len(data)))])
            return environ["wsgi.file_wrapper"](io.BytesIO(data))

        self.assertEqual(Exchange(application).body, data)


class Fields(unittest.TestCase):
    def test_date_and_server_are_added_once(self):
        found = Exchange(answering([b""]))
        self.assertEqual(sum(line.startswith("Date: ") for line in found.lines), 1)
        self.assertIn("Server: maitred", found.lines)
        found = Exchange(answering([b""], [("date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("SERVER", "own")]))
        self.assertEqual(found.head.lower().count(b"date:"), 1)
        self.assertIn("SERVER: own", found.lines)
        self.assertNotIn("Server: maitred", found.lines)

    def test_bad_fields_are_an_error(self):
        for headers in (
            [("X", "a\nb")],
            [("X", "a\rb")],
            [("X", "a\0b")],
            [("X\r\nY", "a")],
            [("X Y", "a")],
            [("", "a")],
            [("X", "\u20ac")],
            [("X", 1)],
            [(b"X", "a")],
            [("Connection", "close")],
            [("transfer-encoding", "chunked")],
            [("Content-Length", "-1")],
            [("Content-Length", "\u0663")],
            [("Content-Length", "1"), ("content-length", "1")],
        ):
            with self.subTest(headers=headers):
                found = Exchange(answering([b"secret"], headers))
                self.assertEqual(found.lines[0], "HTTP/1.1 500 Internal Server Error")
                self.assertNotIn(b"secret", found.raw)

    def test_bad_statuses_are_an_error(self):
        for status in ("200\r\nX: y", "100 Continue", "20 OK", "2000", "", "OK", b"200 OK", None, 200):
            with self.subTest(status=status):
                self.assertEqual(Exchange(answering([b""], status=status)).done.status, 500)

    def test_a_status_needs_no_reason(self):
        self.assertEqual(Exchange(answering([b""], status="299")).lines[0], "HTTP/1.1 299 ")

    def test_lists_instead_of_tuples_work(self):
        self.assertIn("X: y", Exchange(answering([b""], [["X", "y"]])).lines)

    def test_many_different_heads_work(self):
        def application(environ, start_response):
            start_response("200 OK", [("X-Number", environ["QUERY_STRING"])])
            return [b"."]

        found = Exchange(application, *(f"/?{number}" for number in range(600)))
        for number in (0, 255, 256, 599):
            self.assertIn(b"X-Number: %d\r\n" % number, found.raw)


class StartResponse(unittest.TestCase):
    def test_a_second_call_is_an_error(self):
        def application(_, start_response):
            start_response("200 OK", [])
            start_response("404 Not Found", [])
            return [b"x"]

        self.assertEqual(Exchange(application).done.status, 500)

    def test_a_second_call_with_exc_info_replaces_the_head(self):
        def application(_, start_response):
            start_response("200 OK", [("X", "1")])
            try:
                raise ValueError
            except ValueError:
                start_response("503 Busy", [], sys.exc_info())
            return [b"sorry"]

        found = Exchange(application)
        self.assertEqual((found.lines[0], found.body), ("HTTP/1.1 503 Busy", b"sorry"))
        self.assertNotIn("X: 1", found.lines)

    def test_with_exc_info_after_the_start_the_error_is_raised_again(self):
        def application(_, start_response):
            write = start_response("200 OK", [])
            write(b"started")
            try:
                raise ValueError("the first one")
            except ValueError:
                start_response("503 Busy", [], sys.exc_info())

        found = Exchange(application)
        self.assertEqual((found.done.status, found.done.flags), (200, 0))
        self.assertIn("the first one", found.log.getvalue())

    def test_no_call_is_an_error(self):
        self.assertEqual(Exchange(lambda environ, start_response: [b"x"]).done.status, 500)
        self.assertEqual(Exchange(lambda environ, start_response: None).done.status, 500)

    def test_a_late_call_of_a_generator_works(self):
        def application(_, start_response):
            start_response("200 OK", HTML)
            yield b"abc"

        self.assertEqual(Exchange(application).body, b"3\r\nabc\r\n0\r\n\r\n")

    def test_write_comes_before_what_is_returned(self):
        def application(_, start_response):
            write = start_response("200 OK", [])
            write(b"ab")
            write(b"")
            return [b"c"]

        self.assertEqual(Exchange(application).body, b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")

    def test_text_is_no_body(self):
        for body in (["text"], [b"a", "text"], "text", iter(["text"]), [bytearray(b"x")]):
            self.assertEqual(Exchange(answering(body)).done.status, 500)


class Failures(unittest.TestCase):
    def test_the_reason_is_logged_in_one_piece(self):
        found = Exchange(reference.application, "/error/\x1b[31m")
        self.assertEqual(found.done.status, 500)
        self.assertIn("asked for by /error", found.log.getvalue())
        self.assertNotIn("\x1b", found.log.getvalue())

    def test_exit_does_not_take_the_next_request_along(self):
        def application(environ, start_response):
            if environ["QUERY_STRING"] == "exit":
                sys.exit(3)
            start_response("200 OK", [])
            return [b"alive"]

        found = Exchange(application, "/?exit", "/")
        self.assertEqual([done.status for done in found.dones], [500, 200])

    def test_close_is_called_once_in_every_case(self):
        def explode():
            yield b"x"
            raise ValueError

        for pieces in ([b"x"], [b"x", b"y"], [], ["text"], explode()):
            body = Closing(pieces)
            Exchange(answering(body))
            self.assertEqual(body.closed, 1)

    def test_an_error_in_close_is_logged_but_the_response_counts(self):
        class Bad(Closing):
            def close(self):
                raise ValueError("in close")

        found = Exchange(answering(Bad([b"abc"], 1)))
        self.assertEqual((found.body, found.done.flags), (b"abc", CLEAN))
        self.assertIn("in close", found.log.getvalue())


class Environ(unittest.TestCase):
    def environ(self, target="/", **options):
        seen = []

        def application(environ, start_response):
            seen.append(environ)
            start_response("200 OK", [])
            return [b""]

        Exchange(application, target, **options)
        return seen[0]

    def test_the_variables_of_pep_3333(self):
        environ = self.environ("/a%2Fb%C3%A9?x=%20", method="POST", body=b"data")
        expected = {
            "REQUEST_METHOD": "POST",
            "SCRIPT_NAME": "",
            "PATH_INFO": "/a/b\xc3\xa9",
            "QUERY_STRING": "x=%20",
            "CONTENT_LENGTH": "4",
            "SERVER_NAME": "192.0.2.1",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "2001:db8::1",
            "REMOTE_PORT": "999",
            "HTTP_HOST": "example.com",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "https",
            "wsgi.multithread": False,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
        }
        self.assertEqual({key: environ[key] for key in expected}, expected)
        self.assertEqual(environ["wsgi.input"].read(), b"data")
        self.assertNotIn("HTTP_CONTENT_LENGTH", environ)

    def test_the_mount_is_the_script_name(self):
        for target, script_name, path_info in (
            ("/app/x", "/app", "/x"),
            ("/app", "/app", ""),
            ("/app/", "/app", "/"),
            ("/apple", "", "/apple"),
        ):
            environ = self.environ(target, meta=b"mount=/app\n")
            self.assertEqual((environ["SCRIPT_NAME"], environ["PATH_INFO"]), (script_name, path_info))

    def test_an_environment_is_the_applications_own(self):
        seen = []

        def application(environ, start_response):
            seen.append("stain" in environ)
            environ["stain"] = environ["HTTP_HOST"] = "x"
            start_response("200 OK", [])
            return [b""]

        Exchange(application, "/", "/", "/")
        self.assertEqual(seen, [False, False, False])

    def test_the_validator_of_the_standard_library_is_content(self):
        for target in ("/echo", "/bytes/5", "/chunks/2/3", "/status/204"):
            found = Exchange(validator(reference.application), target)
            self.assertEqual(found.done.status, 200 if target != "/status/204" else 204, found.log.getvalue())
            self.assertEqual(found.done.flags, CLEAN)


class Reports(unittest.TestCase):
    def test_reports_of_fast_requests_leave_together(self):
        sends = self.sends(lambda number: 0)
        self.assertEqual(sends, [20])

    def test_a_slow_request_is_reported_at_once_and_those_after_it(self):
        sends = self.sends(lambda number: 0.002 if number == 3 else 0)
        self.assertEqual(sends, [4] + [1] * 16)

    def test_reports_do_not_wait_longer_than_allowed(self):
        sends = self.sends(lambda number: 0.0002)
        self.assertEqual(sum(sends), 20)
        self.assertLessEqual(max(sends), 4)

    def sends(self, service_time):
        """How many DONEs each send had, for 20 requests in one message, by a clock that the test turns."""
        clock = [100.0]
        real, channel_module.monotonic = channel_module.monotonic, lambda: clock[0]
        self.addCleanup(setattr, channel_module, "monotonic", real)
        ours, theirs = socket.socketpair()
        frames = WELCOME_FRAME + b"".join(request_frame(5, n, descriptors=int(n == 0)) for n in range(20))
        socket.send_fds(ours, [frames], [ours.fileno()])
        ours.shutdown(socket.SHUT_WR)
        worker, counts = Channel(theirs), []
        for connection, request, *_ in worker.requests():
            clock[0] += service_time(request)
            worker.done(connection, request, CLEAN, 200, 0)
            counts.append(len(worker._reports))
        worker.close()
        self.assertEqual(len(read_dones(ours)), 20)
        ours.close()
        return [before + 1 for before, after in zip([0, *counts], counts) if after == 0] or [20]


class Violations(unittest.TestCase):
    def test_each_is_refused(self):
        good = request_frame(5, 0, descriptors=0)
        for data in (
            forget_frame(1),
            WELCOME_FRAME + good,
            WELCOME_FRAME + WELCOME_FRAME,
            WELCOME_FRAME + b"\xff" * 64,
            WELCOME_FRAME + request_frame(5, 0, descriptors=1),
        ):
            ours, theirs = socket.socketpair()
            ours.sendall(data)
            ours.shutdown(socket.SHUT_WR)
            worker = Channel(theirs)
            with self.assertRaises(ProtocolError):
                list(worker.requests())
            worker.close()
            ours.close()


if __name__ == "__main__":
    unittest.main()
