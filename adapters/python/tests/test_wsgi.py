"""The adapter in one process: requests go in at one socketpair, responses come out at another."""

import contextlib
import io
import os
import socket
import sys
import tempfile
import threading
import time
import unittest
from wsgiref.validate import validator

from maitred import channel as channel_module
from maitred import frames, log, tail
from maitred.wsgi import Channel
from maitred.frames import CLEAN, CLOSE, HTTP10, KEEP, ProtocolError
from maitred.wsgi import serve
from tests import reference
from tests.frames import WELCOME_FRAME, Reported, cancel_frame, forget_frame, request_frame, small_pair

# The root is what a link leads to as well.
ROOTED = b"remote=192.0.2.7:1\nsendfile_root=%b\nqueue_us=1\n" % tempfile.gettempdir().encode()
HTML = [("Content-Type", "text/html")]


class Exchange:
    """Runs an application on requests until the end of the channel; keeps what came out."""

    def __init__(self, application, *targets, flags=KEEP, method="GET", body=b"", meta=None, reads=True):
        ours, theirs = socket.socketpair()
        near, far = small_pair()
        worker = Channel(theirs)
        frames = WELCOME_FRAME
        spool = None if isinstance(body, bytes) else body
        descriptors = [far.fileno()]
        for number, target in enumerate(targets or ("/",)):
            if spool is None:
                frames += request_frame(5, number, target, method, flags, body, int(number == 0), meta)
            else:
                size = os.fstat(spool.fileno()).st_size
                frames += request_frame(5, number, target, method, flags, b"", int(number == 0), meta, size)
                descriptors.append(spool.fileno())
        socket.send_fds(ours, [frames], descriptors)
        ours.shutdown(socket.SHUT_WR)
        far.close()
        self.raw, self.log = b"", io.StringIO()
        reader = threading.Thread(target=self._read, args=(near,))
        if reads:
            reader.start()
        listener = threading.Thread(target=self._listen, args=(ours,))
        listener.start()
        with contextlib.redirect_stderr(self.log):
            serve(worker, application)
        worker.close()
        listener.join()
        if not reads:
            reader.start()
        reader.join()
        self.raw += self.reports.tail
        self.dones = self.reports.dones
        near.close()
        ours.close()
        self.done = self.dones[0]
        self.head, _, self.body = self.raw.partition(b"\r\n\r\n")
        self.lines = self.head.decode("latin-1").split("\r\n")

    def _listen(self, ours):
        self.reports = Reported(ours)

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


def no_spool(on_disk=False):
    """Stands for a system without a file to be had."""
    raise OSError("no file")


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

        self.assertTrue(Exchange(application).body == data)


class Files(unittest.TestCase):
    def setUp(self):
        self.file = tempfile.NamedTemporaryFile()
        self.addCleanup(self.file.close)
        self.data = os.urandom(300_000)
        self.file.write(self.data)
        self.file.flush()

    def wrapping(self, headers, at=0, length=None):
        def application(environ, start_response):
            start_response("200 OK", headers)
            file = open(self.file.name, "rb")
            file.seek(at)
            self.opened = file
            return environ["wsgi.file_wrapper"](file)

        if length is not None:
            os.truncate(self.file.name, length)
        return application

    def test_a_large_file_is_left_to_maitred(self):
        found = Exchange(self.wrapping([]))
        self.assertTrue(found.body == self.data)
        self.assertIn("Content-Length: 300000", found.lines)
        self.assertEqual((found.reports.tails, found.done.flags, found.done.body_bytes), (["file"], CLEAN, 300_000))
        self.assertTrue(self.opened.closed)

    def test_a_small_file_is_sent_at_once(self):
        found = Exchange(self.wrapping([], length=1000))
        self.assertEqual((found.body, found.reports.tails), (self.data[:1000], []))

    def test_a_file_counts_from_where_it_stands(self):
        found = Exchange(self.wrapping([], at=100_000))
        self.assertTrue(found.body == self.data[100_000:])

    def test_a_stated_length_is_a_part_of_the_file(self):
        found = Exchange(self.wrapping([("Content-Length", "200000")], at=5))
        self.assertTrue(found.body == self.data[5:200_005])

    def test_a_stated_length_over_that_of_the_file_is_an_error(self):
        found = Exchange(self.wrapping([("Content-Length", "300001")]))
        self.assertEqual(found.done.status, 500)

    def test_head_of_a_file_has_its_length(self):
        found = Exchange(self.wrapping([]), method="HEAD")
        self.assertIn("Content-Length: 300000", found.lines)
        self.assertEqual((found.body, found.reports.tails, found.done.flags), (b"", [], CLEAN))

    def test_what_is_no_file_is_read(self):
        def application(environ, start_response):
            start_response("200 OK", [])
            return environ["wsgi.file_wrapper"](io.BytesIO(self.data), 100_000)

        found = Exchange(application)
        self.assertEqual(found.body.count(b"\r\n186a0\r\n"), 2)

    def test_x_sendfile_names_the_body(self):
        for body in ([], [b"instead"], iter([b"in", b"stead"])):
            headers = [("X-Sendfile", self.file.name), ("Content-Length", "0"), ("X-A", "b")]
            found = Exchange(answering(body, headers), meta=ROOTED)
            self.assertTrue(found.body == self.data)
            self.assertIn("Content-Length: 300000", found.lines)
            self.assertIn("X-A: b", found.lines)
            self.assertNotIn(b"sendfile", found.head.lower())
            self.assertEqual((found.done.flags, found.done.body_bytes), (CLEAN, 300_000))

    def test_without_a_root_x_sendfile_is_a_field_as_any_other(self):
        for meta in (None, b"sendfile_root=\n"):
            for body in ([b"instead"], iter([b"in", b"stead"])):
                found = Exchange(answering(body, [("X-Sendfile", self.file.name)]), "/", "/", meta=meta)
                self.assertIn(f"X-Sendfile: {self.file.name}", found.lines)
                self.assertIn(b"in", found.body)
                self.assertNotIn(self.data[:100], found.raw)

    def test_the_same_head_with_and_without_a_root(self):
        application = answering([b"instead"], [("X-Sendfile", self.file.name)])
        for meta, body in ((None, b"instead"), (ROOTED, self.data), (None, b"instead"), (ROOTED, self.data)):
            self.assertTrue(Exchange(application, meta=meta).body == body)

    def test_a_path_is_bytes(self):
        with tempfile.TemporaryDirectory() as directory:
            name = os.path.join(os.fsencode(directory), "grüße".encode())
            with open(name, "wb") as file:
                file.write(b"hello")
            found = Exchange(answering([], [("X-Sendfile", name.decode("latin-1"))]), meta=ROOTED)
            self.assertEqual(found.body, b"hello")

    def test_x_sendfile_of_something_else_is_an_error(self):
        for path in ("/nowhere", tempfile.gettempdir(), "/dev/null", "/etc/passwd", "relative", ""):
            found = Exchange(answering([b""], [("X-Sendfile", path)]), meta=ROOTED)
            self.assertEqual(found.done.status, 500)
            self.assertIn(f"{path!r}", found.log.getvalue())
            self.assertNotIn((path or "sendfile").encode(), found.raw)


class SlowClients(unittest.TestCase):
    """There is no reader until the worker has ended: it must not wait."""

    def check(self, body, tails, headers=()):
        expected = b"".join(body) if isinstance(body, list) else None
        found = Exchange(answering(body, headers), reads=False)
        if expected is not None:
            self.assertTrue(found.body == expected)
        self.assertEqual((set(found.reports.tails), found.done.flags), (tails, CLEAN))
        return found

    def test_a_small_rest_is_left_as_bytes(self):
        found = self.check([b"x" * 400_000], {"bytes"})
        self.assertEqual(found.done.body_bytes, 400_000)

    def test_a_large_rest_is_left_as_a_file(self):
        self.check([os.urandom(3_000_000)], {"file"})

    def test_pieces_are_left_in_order(self):
        pieces = [os.urandom(30_000) for _ in range(100)]
        found = self.check(iter(pieces), {"bytes", "file"})
        expected = b"".join(b"7530\r\n" + piece + b"\r\n" for piece in pieces) + b"0\r\n\r\n"
        self.assertTrue(found.body == expected)
        self.assertEqual(found.done.body_bytes, 3_000_000)

    def test_many_small_pieces_make_few_frames(self):
        found = self.check(iter([b"x" * 100] * 20_000), {"bytes", "file"})
        self.assertEqual(found.done.body_bytes, 2_000_000)
        self.assertLess(len(found.reports.tails), 40)

    def test_more_than_memory_may_hold_goes_to_a_file_on_disk(self):
        limit, tail._MEMORY_BYTES_MAX = tail._MEMORY_BYTES_MAX, 1_000_000
        self.addCleanup(setattr, tail, "_MEMORY_BYTES_MAX", limit)
        pieces = [os.urandom(100_000) for _ in range(40)]
        found = self.check(iter(pieces), {"bytes", "file"}, [("Content-Length", "4000000")])
        self.assertTrue(found.body == b"".join(pieces))
        self.assertEqual(found.reports.tails.count("file"), 2)

    def test_a_long_response_passes_few_files(self):
        pieces = [os.urandom(1_000_000) for _ in range(20)]
        found = self.check(iter(pieces), {"file"}, [("Content-Length", "20000000")])
        self.assertTrue(found.body == b"".join(pieces))
        self.assertLessEqual(found.reports.tails.count("file"), frames.TAIL_FILES_MAX)

    def test_a_failure_after_the_socket_was_full_breaks_the_response(self):
        def pieces():
            yield b"x" * 1_000_000
            raise ValueError

        found = Exchange(answering(pieces()), reads=False)
        self.assertEqual((found.done.flags, found.done.status), (0, 200))
        self.assertFalse(found.raw.endswith(b"0\r\n\r\n"))

    def test_a_stream_without_an_end_stops_when_its_socket_is_shut_down(self):
        ours, theirs = socket.socketpair()
        near, far = small_pair()
        closed = []

        def application(environ, start_response):
            start_response("200 OK", [])
            try:
                for number in range(100_000):
                    if number == 100:
                        # As Maitred does it after CANCEL.
                        far.shutdown(socket.SHUT_RDWR)
                    yield b"x" * 10_000
            finally:
                closed.append(number)

        socket.send_fds(ours, [WELCOME_FRAME + request_frame(5, 0, descriptors=1)], [far.fileno()])
        ours.shutdown(socket.SHUT_WR)
        listener = threading.Thread(target=lambda: closed.append(Reported(ours).dones))
        listener.start()
        worker = Channel(theirs)
        serve(worker, application)
        worker.close()
        listener.join()
        number, dones = closed
        self.assertLess(number, 1000)
        self.assertEqual([(done.flags, done.status) for done in dones], [(0, 200)])
        for sock in (near, far, ours):
            sock.close()

    def test_without_any_file_the_worker_waits(self):
        real, tail._Spool = tail._Spool, no_spool
        self.addCleanup(setattr, tail, "_Spool", real)
        data = os.urandom(3_000_000)
        found = Exchange(answering([data]))
        self.assertTrue(found.body == data)
        self.assertEqual((found.reports.tails, found.done.flags), ([], CLEAN))


class SpooledBodies(unittest.TestCase):
    def test_a_body_in_a_file_is_the_input(self):
        data = os.urandom(3_000_000)
        with tempfile.TemporaryFile() as spool:
            spool.write(data)
            spool.flush()
            seen = []

            def application(environ, start_response):
                source = environ["wsgi.input"]
                seen.append((environ["CONTENT_LENGTH"], source.read(10), source.readline(), source.read(), source.read(1)))
                start_response("200 OK", [])
                return []

            Exchange(application, "/", "/", method="POST", body=spool)
        for length, *pieces, rest in seen:
            self.assertTrue(b"".join(pieces) == data)
            self.assertEqual((length, rest), ("3000000", b""))
        self.assertEqual(len(seen), 2)

    def test_the_descriptor_is_closed_afterwards(self):
        def application(environ, start_response):
            start_response("200 OK", [])
            return []

        before = len(os.listdir("/proc/self/fd"))
        with tempfile.TemporaryFile() as spool:
            spool.write(b"body")
            spool.flush()
            Exchange(application, *["/"] * 50, body=spool)
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)


class Cancelling(unittest.TestCase):
    def test_only_requests_that_wait_are_dropped(self):
        ours, theirs = socket.socketpair()
        near, far = socket.socketpair()
        far.setblocking(False)
        frames = WELCOME_FRAME + b"".join(request_frame(5, n, descriptors=int(n == 0)) for n in range(4))
        frames += cancel_frame(5, 2) + cancel_frame(5, 9) + cancel_frame(6, 1)
        socket.send_fds(ours, [frames], [far.fileno()])
        ours.shutdown(socket.SHUT_WR)
        worker, asked = Channel(theirs), []

        def application(environ, start_response):
            asked.append(1)
            start_response("200 OK", [])
            return []

        serve(worker, application)
        worker.close()
        dones = Reported(ours).dones
        self.assertEqual([(done.request, done.status, done.flags) for done in dones], [
            (0, 200, CLEAN), (1, 200, CLEAN), (2, 0, 0), (3, 200, CLEAN),
        ])  # fmt: skip
        self.assertEqual(len(asked), 3)
        for sock in (near, far, ours):
            sock.close()

    def test_a_cancel_that_comes_during_a_slow_request_is_seen(self):
        ours, theirs = socket.socketpair()
        near, far = socket.socketpair()
        far.setblocking(False)
        frames = WELCOME_FRAME + b"".join(request_frame(5, n, descriptors=int(n == 0)) for n in range(3))
        socket.send_fds(ours, [frames], [far.fileno()])
        worker, asked = Channel(theirs), []

        def application(environ, start_response):
            if not asked:
                time.sleep(0.002)
                ours.sendall(cancel_frame(5, 1))
                ours.shutdown(socket.SHUT_WR)
            asked.append(1)
            start_response("200 OK", [])
            return []

        serve(worker, application)
        worker.close()
        self.assertEqual([done.status for done in Reported(ours).dones], [200, 0, 200])
        for sock in (near, far, ours):
            sock.close()


class Fields(unittest.TestCase):
    def test_date_and_server_are_added_once(self):
        found = Exchange(answering([b""]))
        self.assertEqual(sum(line.startswith("Date: ") for line in found.lines), 1)
        self.assertIn("Server: maitred", found.lines)
        found = Exchange(answering([b""], [("date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("SERVER", "own")]))
        self.assertEqual(found.head.lower().count(b"date:"), 1)
        self.assertIn("SERVER: own", found.lines)
        self.assertNotIn("Server: maitred", found.lines)

    def test_no_server_is_named_where_none_is_wanted(self):
        unwanted = b"remote=192.0.2.7:1\nserver_header=0\nqueue_us=1\n"
        named = b"remote=192.0.2.7:1\nuser=server_header=0\nauth_type=Basic\nqueue_us=1\n"
        failing = answering(5)
        for application in (answering([b"x"]), failing, answering([b"x"], [["X-List", "1"]])):
            for meta, wanted in ((unwanted, 0), (named, 1), (unwanted, 0), (unwanted[19:], 0), (None, 1)):
                found = Exchange(application, meta=meta)
                self.assertEqual(found.lines.count("Server: maitred"), wanted, (application, meta))
        self.assertIn("Server: own", Exchange(answering([b""], [("Server", "own")]), meta=unwanted).lines)

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
            [("Connection", "close\nX: y")],
            [("Content-Length", "-1")],
            [("Content-Length", "\u0663")],
            [("Content-Length", "6"), ("content-length", "7")],
        ):
            with self.subTest(headers=headers):
                found = Exchange(answering([b"secret"], headers))
                self.assertEqual(found.lines[0], "HTTP/1.1 500 Internal Server Error")
                self.assertNotIn(b"secret", found.raw)

    def test_fields_of_the_connection_are_dropped_and_that_is_said_once(self):
        headers = [("Connection", "Keep-Alive, X-Own"), ("KEEP-ALIVE", "timeout=5"), ("x-own", "1"), ("X-Other", "2")]
        for name in ("Proxy-Connection", "TE", "Trailer", "transfer-encoding", "upgrade"):
            headers.append((name, "chunked"))
        log._dropped.clear()
        with self.assertLogs("maitred", "DEBUG") as logged:
            for method in ("GET", "HEAD"):
                found = Exchange(answering([b"abc"], headers), "/", "/", method=method)
                names = [line.partition(":")[0].lower() for line in found.lines[1:]]
                self.assertEqual(sorted(names), ["content-length", "date", "server", "x-other"])
                self.assertEqual([done.status for done in found.dones], [200, 200])
            # Another head than those that are known already.
            Exchange(answering([b"abc"], [("Connection", "close")]))
        self.assertEqual(len(logged.output), 8, logged.output)

    def test_connection_names_nothing_that_is_the_adapters(self):
        headers = [("Connection", "Date, Server, Content-Length"), ("Server", "own"), ("Content-Length", "3")]
        found = Exchange(answering([b"abc"], headers))
        self.assertEqual(found.done.flags, CLEAN)
        for line in ("Server: own", "Content-Length: 3"):
            self.assertIn(line, found.lines)

    def test_upgrade_in_a_426_is_passed_on_and_named(self):
        for flags, connection in (
            (KEEP, "upgrade"),
            (0, "close, upgrade"),
            (KEEP | HTTP10, "keep-alive, upgrade"),
        ):
            headers = [("Upgrade", "HTTP/3.0"), ("Connection", "Upgrade")]
            found = Exchange(answering([b"abc"], headers, "426 Upgrade Required"), flags=flags)
            self.assertIn("Upgrade: HTTP/3.0", found.lines)
            self.assertEqual([line for line in found.lines if line.startswith("Connection")], [f"Connection: {connection}"])

    def test_white_space_and_a_repeated_length_change_nothing(self):
        headers = [("X", " a b\t"), ("Content-Length", "3 "), ("content-length", "3")]
        found = Exchange(answering([b"abc"], headers))
        self.assertIn("X: a b", found.lines)
        self.assertEqual(found.lines.count("Content-Length: 3"), 1)
        self.assertEqual((found.body, found.done.flags), (b"abc", CLEAN))

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
            "RAW_URI": "/a%2Fb%C3%A9?x=%20",
            "REQUEST_URI": "/a%2Fb%C3%A9?x=%20",
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
        """How many DONEs each send had, for 20 requests in one message, by a clock that the test turns: that of the channel in
        Python, whatever stands for it."""
        clock = [100.0]
        real, channel_module.monotonic = channel_module.monotonic, lambda: clock[0]
        self.addCleanup(setattr, channel_module, "monotonic", real)
        ours, theirs = socket.socketpair()
        frames = WELCOME_FRAME + b"".join(request_frame(5, n, descriptors=int(n == 0)) for n in range(20))
        socket.send_fds(ours, [frames], [ours.fileno()])
        ours.shutdown(socket.SHUT_WR)
        worker, counts = channel_module.Channel(theirs), []
        for connection, request, *_ in worker.requests():
            clock[0] += service_time(request)
            worker.done(connection, request, CLEAN, 200, 0)
            counts.append(len(worker._reports))
        worker.close()
        self.assertEqual(len(Reported(ours).dones), 20)
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
