"""RSGI applications in one process, as tests.test_asgi has those of ASGI."""

import asyncio
import contextlib
import io
import os
import socket
import struct
import sys
import tempfile
import threading
import types
import unittest
from unittest import mock

from maitred import rsgi
from maitred.__main__ import interface_of
from maitred.frames import CLEAN, HTTP10, KEEP
from maitred.lifespan import StartupFailed
from maitred.websocket import BINARY, TEXT
from tests import test_asgi
from tests.frames import WELCOME_FRAME, cancel_frame, request_frame, small_pair
from tests.served import DEADLINE_S
from tests.test_asgi import CLOSE_1000, upgrade
from tests.test_websocket import masked


class Exchange(test_asgi.Exchange):
    """The same with an RSGI application."""

    @staticmethod
    def worker(application, options):
        return rsgi.worker_of(application)


def watching(mark, seen, answer=b""):
    """The class of exchanges whose client says `answer` and sets `seen` when it has read `mark`."""

    class Watching(Exchange):
        def _read(self, near):
            while data := near.recv(65536):
                self.raw += data
                if mark in self.raw and not seen.is_set():
                    near.sendall(answer)
                    seen.set()

    return Watching


def answering(answer):
    """An application that calls `answer(protocol)`."""

    async def application(scope, protocol):
        answer(protocol)

    return application


class Responses(unittest.TestCase):
    def test_whole_bodies(self):
        for answer, body in (
            (lambda protocol: protocol.response_str(200, [("x-a", "1")], "caf\xe9"), b"caf\xc3\xa9"),
            (lambda protocol: protocol.response_bytes(200, [("x-a", "1")], b"\0\xff"), b"\0\xff"),
            (lambda protocol: protocol.response_bytes(200, (("x-a", "1"),), bytearray(b"ab")), b"ab"),
            (lambda protocol: protocol.response_empty(200, [("x-a", "1")]), b""),
        ):
            found = Exchange(answering(answer))
            self.assertIn("x-a: 1", found.lines)
            self.assertIn(f"Content-Length: {len(body)}", found.lines)
            self.assertEqual((found.body, found.done.flags, found.log.getvalue()), (body, CLEAN, ""))

    def test_a_large_body_is_left_to_maitred(self):
        data = os.urandom(3_000_000)
        found = Exchange(answering(lambda protocol: protocol.response_bytes(200, [], data)), reads=False)
        self.assertTrue(found.body == data)
        self.assertEqual((set(found.reported.tails), found.done.flags), ({"file"}, CLEAN))

    def test_a_response_is_out_before_the_application_returns(self):
        async def application(scope, protocol):
            protocol.response_str(200, [], "early")
            # Only this says that the client has it.
            self.assertTrue(await asyncio.to_thread(seen.wait, DEADLINE_S))

        seen = threading.Event()
        self.assertEqual(watching(b"early", seen)(application).log.getvalue(), "")

    def test_streams(self):
        async def application(scope, protocol):
            transport = protocol.response_stream(200, [("x-a", "1")])
            await transport.send_bytes(b"abc")
            await transport.send_str("d\xe9")

        found = Exchange(application)
        self.assertEqual((found.body, found.done.flags), (b"3\r\nabc\r\n3\r\nd\xc3\xa9\r\n0\r\n\r\n", CLEAN))
        found = Exchange(answering(lambda protocol: protocol.response_stream(200, [])))
        self.assertEqual((found.body, found.done.flags), (b"", CLEAN))

        async def failing(scope, protocol):
            await protocol.response_stream(200, []).send_bytes(b"abc")
            raise ValueError("half")

        found = Exchange(failing)
        self.assertEqual((found.body, found.done.flags), (b"3\r\nabc\r\n", 0))

    def test_files_and_parts_of_them(self):
        with tempfile.NamedTemporaryFile() as file:
            data = os.urandom(300_000)
            file.write(data)
            file.flush()
            for answer, body, tails in (
                (lambda protocol: protocol.response_file(200, [], file.name), data, ["file"]),
                (lambda protocol: protocol.response_file_range(200, [], file.name, 3, 200_003), data[3:200_003], ["file"]),
                (lambda protocol: protocol.response_file_range(200, [], file.name, 3, 10), data[3:10], []),
                (lambda protocol: protocol.response_file_range(200, [], file.name, 299_999, 1 << 70), data[299_999:], []),
                (lambda protocol: protocol.response_file_range(200, [], file.name, 1 << 70, 1 << 71), b"", []),
            ):
                before = len(os.listdir("/proc/self/fd"))
                found = Exchange(answering(answer))
                self.assertTrue(found.body == body)
                self.assertIn(f"Content-Length: {len(body)}", found.lines)
                self.assertEqual((found.reported.tails, found.done.flags, found.log.getvalue()), (tails, CLEAN, ""))
                self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_a_file_that_cannot_be_opened_is_a_404(self):
        for path in ("/nowhere", tempfile.gettempdir()):
            found = Exchange(answering(lambda protocol: protocol.response_file(200, [("x-a", "1")], path)))
            self.assertEqual((found.done.status, found.body, found.log.getvalue()), (404, b"Not found", ""))

    def test_wrong_use_is_a_500(self):
        for answer in (
            lambda protocol: protocol.response_str(200, [], b"bytes"),
            lambda protocol: protocol.response_bytes(200, [], "str"),
            lambda protocol: protocol.response_bytes(200, [], 3),
            lambda protocol: protocol.response_str("200", [], ""),
            lambda protocol: protocol.response_str(True, [], ""),
            lambda protocol: protocol.response_str(99, [], ""),
            lambda protocol: protocol.response_str(1 << 80, [], ""),
            lambda protocol: protocol.response_str(200, [("a", 1)], ""),
            lambda protocol: protocol.response_str(200, [("a",)], ""),
            lambda protocol: protocol.response_str(200, [(b"a", b"1")], ""),
            lambda protocol: protocol.response_str(200, [("a b", "1")], ""),
            lambda protocol: protocol.response_str(200, [("a", "1\r\nb: 2")], ""),
            lambda protocol: protocol.response_str(200, None, ""),
            lambda protocol: protocol.response_file(200, [], 3),
            lambda protocol: protocol.response_file(200, [], "a\0b"),
            lambda protocol: protocol.response_file_range(206, [], __file__, 2, 2),
            lambda protocol: protocol.response_file_range(206, [], __file__, -1, 2),
            lambda protocol: protocol.response_file_range(206, [], __file__, 0, None),
            lambda protocol: protocol.response_stream(200, 7),
            lambda protocol: None,
        ):
            found = Exchange(answering(answer))
            self.assertEqual((found.done.status, found.raw.count(b"HTTP/1.1 ")), (500, 1), found.raw)
            self.assertIn("the application failed", found.log.getvalue())

    def test_what_was_refused_can_be_answered_in_another_way(self):
        def answer(protocol):
            for wrong in (("200", [], ""), (200, [("a b", "1")], ""), (200, [], 3)):
                with contextlib.suppress(TypeError, ValueError):
                    protocol.response_str(*wrong)
            protocol.response_str(200, [], "right")

        self.assertEqual(Exchange(answering(answer)).body, b"right")

    def test_a_second_response_is_the_applications_failure(self):
        def twice(protocol):
            protocol.response_str(200, [], "first")
            protocol.response_str(200, [], "second")

        found = Exchange(answering(twice))
        self.assertEqual((found.body, found.done.flags), (b"first", CLEAN))
        self.assertIn("ProtocolError", found.log.getvalue())

    def test_a_client_that_has_gone_is_no_failure_of_a_response(self):
        async def application(scope, protocol):
            await protocol.client_disconnect()
            protocol.response_str(200, [], "late")

        async def streaming(scope, protocol):
            transport = protocol.response_stream(200, [])
            await protocol.client_disconnect()
            with self.assertRaises(rsgi.ProtocolClosed):
                await transport.send_bytes(b"late")
            seen.append("closed")
            await transport.send_bytes(b"late")

        seen = []
        for each in (application, streaming):
            found = Exchange(each, request_frame(5, 0, descriptors=1), cancel_frame(5, 0))
            self.assertEqual((found.done.flags, found.body, found.log.getvalue()), (0, b"", ""))
        self.assertEqual(seen, ["closed"])


class Requests(unittest.TestCase):
    def seen(self, look, *frames, **options):
        """What `look(scope, protocol)` returns."""
        found = []

        async def application(scope, protocol):
            found.append(await look(scope, protocol))
            protocol.response_empty(200, [])

        exchange = Exchange(application, *frames, **options)
        self.assertEqual(exchange.log.getvalue(), "")
        return found[0]

    def test_the_scope(self):
        names = "proto rsgi_version http_version server client scheme method path query_string authority root_path identity"

        async def look(scope, protocol):
            return {name: getattr(scope, name) for name in names.split()}

        expected = {
            "proto": "http",
            "rsgi_version": "1.6",
            "http_version": "1.1",
            "server": "192.0.2.1:80",
            "client": "[2001:db8::1]:999",
            "scheme": "https",
            "method": "PATCH",
            "path": "/a/b\xe9",
            "query_string": "x=%20",
            "authority": None,
            "root_path": "",
            "identity": None,
        }
        frame = request_frame(5, 0, "/a%2Fb%C3%A9?x=%20", "PATCH", descriptors=1)
        self.assertEqual(self.seen(look, frame), expected)
        meta = b"scheme=http\nmount=/a\nuser=ann\nauth_type=Basic\n"
        found = self.seen(look, request_frame(5, 0, "/a/b", flags=KEEP | HTTP10, descriptors=1, meta=meta))
        changed = {"path": "/a/b", "root_path": "/a", "scheme": "http", "http_version": "1", "client": "", "server": ""}
        self.assertLessEqual(changed.items(), found.items())
        self.assertEqual(found["identity"], {"user": "ann", "auth_type": "Basic"})

    def test_headers_are_a_mapping_of_lower_case_names(self):
        async def look(scope, protocol):
            headers = scope.headers
            self.assertIs(headers, scope.headers)
            with self.assertRaises(KeyError):
                headers["x-b"]
            self.assertEqual((headers.get("x-b"), headers.get("x-b", "none"), headers.get_all("x-b")), (None, "none", []))
            self.assertTrue("X-A" in headers and "x-a" in headers and "x-b" not in headers)
            self.assertEqual((headers["X-A"], headers.get("X-a"), headers.get_all("X-A")), ("1", "1", ["1", "\xe9"]))
            self.assertEqual((dict(headers), len(headers)), ({"host": "example.com", "x-a": "1", "x-c": "\udce9"}, 3))
            return headers.keys(), headers.values(), headers.items()

        pairs = [("host", "example.com"), ("x-a", "1"), ("x-a", "\xe9"), ("x-c", "\udce9")]
        frame = request_frame(5, 0, descriptors=1, fields="x-a: 1\r\nx-a: \xc3\xa9\r\nx-c: \xe9\r\n")
        self.assertEqual(self.seen(look, frame), (["host", "x-a", "x-c"], [value for _, value in pairs], pairs))

    def test_bodies(self):
        async def whole(scope, protocol):
            body = await protocol()
            for read in (protocol, lambda: aiter_of(protocol)):
                with self.assertRaises(rsgi.ProtocolError):
                    await read()
            return body

        async def pieces(scope, protocol):
            found = [piece async for piece in protocol]
            with self.assertRaises(rsgi.ProtocolError):
                await protocol()
            return b"".join(found)

        async def aiter_of(protocol):
            return protocol.__aiter__()

        async def some(scope, protocol):
            async for piece in protocol:
                return piece

        data = os.urandom(1_000_000)
        for look in (whole, pieces):
            self.assertEqual(self.seen(look, request_frame(5, 0, method="POST", body=b"body", descriptors=1)), b"body")
            self.assertEqual(self.seen(look, request_frame(5, 0, descriptors=1)), b"")
            for read in (look, some):
                with tempfile.TemporaryFile() as spool:
                    spool.write(data)
                    spool.flush()
                    frame = request_frame(5, 0, method="POST", descriptors=1, spooled=len(data))
                    found = self.seen(read, frame, descriptors=[spool.fileno()])
                self.assertTrue(found and data.startswith(found) and (read is some) == (len(found) < len(data)))

    def test_the_clients_end_is_seen_beside_the_body(self):
        async def application(scope, protocol):
            watcher = asyncio.ensure_future(protocol.client_disconnect())
            # It looks at the first piece, and takes nothing away.
            await asyncio.sleep(0)
            seen.append(await protocol())
            self.assertFalse(watcher.done())
            protocol.response_empty(200, [])
            await watcher

        seen = []
        for body in (b"body", b""):
            found = Exchange(application, request_frame(5, 0, method="POST", body=body, descriptors=1))
            self.assertEqual((seen.pop(), found.done.flags, found.log.getvalue()), (body, CLEAN, ""))
        data = os.urandom(1_000_000)
        with tempfile.TemporaryFile() as spool:
            spool.write(data)
            spool.flush()
            frame = request_frame(5, 0, method="POST", descriptors=1, spooled=len(data))
            found = Exchange(application, frame, descriptors=[spool.fileno()])
        self.assertTrue(seen.pop() == data)
        self.assertEqual((found.done.flags, found.log.getvalue()), (CLEAN, ""))

    def test_an_object_with_the_method_is_an_application(self):
        class Application:
            async def __rsgi__(self, scope, protocol):
                protocol.response_str(200, [], "method")

            async def __call__(self, scope, receive, send):
                raise NotImplementedError

        self.assertEqual(Exchange(Application()).body, b"method")
        self.assertEqual(interface_of(Application()), "rsgi")


class Echo:
    """A WebSocket that says everything again; `ended` is set when it has ended."""

    def __init__(self):
        self.ended, self.last, self.scope = threading.Event(), None, None

    async def __rsgi__(self, scope, protocol):
        self.scope = scope
        transport = await protocol.accept("chat")
        while (message := await transport.receive()).kind != rsgi.CLOSED:
            if message.kind == rsgi.TEXT:
                await transport.send_str(message.data)
            else:
                await transport.send_bytes(message.data)
        self.last = message
        self.ended.set()
        # The client has gone: that is no failure of the application.
        await transport.receive()


class WebSockets(unittest.TestCase):
    def test_messages_go_both_ways(self):
        echo = Echo()
        found = Exchange(echo, upgrade(masked(TEXT, b"text")), early=masked(BINARY, b"\0\1") + CLOSE_1000, until=echo.ended)
        self.assertEqual(found.lines[0], "HTTP/1.1 101 Switching Protocols")
        self.assertIn("Sec-WebSocket-Protocol: chat", found.lines)
        self.assertEqual(found.body, b"\x81\x04text\x82\x02\0\1\x88\x02\x03\xe8")
        self.assertEqual((echo.last.data, found.dones, found.log.getvalue()), (None, [], ""))
        scope = echo.scope
        self.assertEqual((scope.proto, scope.method, scope.scheme, scope.path), ("ws", "GET", "https", "/"))
        self.assertEqual(scope.headers["upgrade"], "websocket")

    def test_refusals(self):
        for answer, status in (
            (lambda protocol: protocol.close(), 403),
            (lambda protocol: protocol.close(401), 401),
            (lambda protocol: None, 403),
            (lambda protocol: protocol.close("no"), 500),
            (lambda protocol: protocol.close(1001), 500),
        ):
            found = Exchange(answering(answer), upgrade())
            self.assertEqual((found.done.status, found.done.flags), (status, CLEAN))

    def test_an_end_has_a_code(self):
        async def application(scope, protocol):
            transport = await protocol.accept()
            await transport.send_str("last")
            with self.assertRaises(TypeError):
                protocol.close("1000")
            protocol.close(*code)
            with self.assertRaises(rsgi.ProtocolClosed):
                await transport.send_str("more")

        for code, expected in (((4000,), 4000), ((), 1000), ((200,), 1000), ((503,), 1011)):
            said = b"\x81\x04last\x88\x02" + struct.pack(">H", expected)
            closed = threading.Event()
            answer = masked(8, struct.pack(">H", expected))
            found = watching(said, closed, answer)(application, upgrade(), until=closed)
            self.assertEqual((found.body, found.log.getvalue()), (said, ""))

    def test_wrong_use_is_the_applications_failure(self):
        async def twice(scope, protocol):
            await protocol.accept()
            await protocol.accept()

        async def both(scope, protocol):
            protocol.close()
            await protocol.accept()

        async def kind(scope, protocol):
            await (await protocol.accept()).send_str(b"bytes")

        async def other(scope, protocol):
            await (await protocol.accept()).send_bytes("str")

        for application, answer in ((twice, b" 101 "), (both, b" 403 "), (kind, b" 101 "), (other, b" 101 ")):
            found = Exchange(application, upgrade(), early=masked(8, struct.pack(">H", 1011)))
            self.assertIn(answer, found.raw)
            self.assertIn("the application failed", found.log.getvalue())


class Served(unittest.TestCase):
    def serve(self, application):
        ours, theirs = socket.socketpair()
        near, far = small_pair()
        socket.send_fds(ours, [WELCOME_FRAME + request_frame(5, 0, descriptors=1)], [far.fileno()])
        far.close()
        ours.shutdown(socket.SHUT_WR)
        log = io.StringIO()
        try:
            with contextlib.redirect_stderr(log):
                rsgi.serve(theirs, application, 100, "test")
            return near.recv(65536), log.getvalue()
        finally:
            for each in (ours, theirs, near):
                each.close()

    def test_init_and_del_have_the_loop_and_may_run_it(self):
        events = []

        class Application:
            def __rsgi_init__(self, loop):
                loop.run_until_complete(self.note("init"))
                self.loop = loop

            async def __rsgi__(self, scope, protocol):
                await self.note("request")
                self.same = asyncio.get_running_loop() is self.loop
                protocol.response_str(200, [], "here")
                self.task = asyncio.ensure_future(asyncio.Event().wait())

            def __rsgi_del__(self, loop):
                loop.run_until_complete(self.note("del"))

            async def note(self, event):
                await asyncio.sleep(0)
                events.append(event)

        application = Application()
        response, log = self.serve(application)
        self.assertTrue(response.endswith(b"here"))
        self.assertEqual((events, log, application.same), (["init", "request", "del"], "", True))
        self.assertTrue(application.task.cancelled() and application.loop.is_closed())

    def test_failures_of_init_and_del(self):
        class Application:
            def __rsgi_init__(self, loop):
                if self.fails_early:
                    raise RuntimeError("no database")

            async def __rsgi__(self, scope, protocol):
                protocol.response_str(200, [], "here")

            def __rsgi_del__(self, loop):
                raise SystemExit("not today")

        application = Application()
        application.fails_early = True
        with self.assertRaisesRegex(StartupFailed, "(?s)__rsgi_init__ raised.*no database"):
            self.serve(application)
        application.fails_early = False
        response, log = self.serve(application)
        self.assertTrue(response.endswith(b"here"))
        self.assertIn("__rsgi_del__ raised", log)

    def test_exceptions_are_those_that_the_application_has_imported(self):
        theirs = types.ModuleType("granian.rsgi")
        theirs.ProtocolClosed = type("ProtocolClosed", (RuntimeError,), {})
        theirs.ProtocolError = "odd"
        with mock.patch.dict(sys.modules, {"granian.rsgi": theirs}):
            self.assertIs(rsgi._granians("ProtocolClosed"), theirs.ProtocolClosed)
            self.assertIs(rsgi._granians("ProtocolError"), RuntimeError)
            self.assertIs(rsgi._granians("Other"), RuntimeError)
        with mock.patch.dict(sys.modules):
            sys.modules.pop("granian.rsgi", None)
            self.assertIs(rsgi._granians("ProtocolClosed"), RuntimeError)


if __name__ == "__main__":
    unittest.main()
