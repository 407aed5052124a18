"""ASGI applications in one process: what comes over the channel is there before the worker starts."""

import asyncio
import contextlib
import io
import os
import socket
import struct
import tempfile
import threading
import unittest
from unittest import mock

from maitred import asgi, asgi_websocket
from maitred.frames import CLEAN, CLOSE, HTTP10, KEEP, MAY_DETACH, ProtocolError
from maitred.lifespan import StartupFailed
from maitred.recovery import Recovery
from maitred.websocket import BINARY, TEXT
from tests.frames import WELCOME_FRAME, Reported, cancel_frame, forget_frame, request_frame, small_pair
from tests.test_websocket import masked

ROOTED = b"sendfile_root=%b\nqueue_us=1\n" % tempfile.gettempdir().encode()
UPGRADE = (
    b"upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


class Exchange:
    """Runs an application on frames until the end of the channel; keeps what came out."""

    worker = asgi.Worker

    def __init__(self, application, *frames, descriptors=(), early=b"", reads=True, until=None, options=asgi.Options()):
        ours, theirs = socket.socketpair()
        near, far = small_pair()
        near.sendall(early)
        frames = frames or (request_frame(5, 0, descriptors=1),)
        socket.send_fds(ours, [WELCOME_FRAME + b"".join(frames)], [far.fileno(), *descriptors])
        if until is None:
            ours.shutdown(socket.SHUT_WR)
        else:
            threading.Thread(target=lambda: (until.wait(10), ours.shutdown(socket.SHUT_WR))).start()
        far.close()
        self.raw, self.log = b"", io.StringIO()
        reader = threading.Thread(target=self._read, args=(near,))
        listener = threading.Thread(target=self._listen, args=(ours,))
        listener.start()
        if reads is True:
            reader.start()
        elif reads:
            starter = threading.Thread(target=lambda: (reads.wait(10), reader.start()))
            starter.start()
        try:
            with contextlib.redirect_stderr(self.log):
                asyncio.run(self.worker(application, options).main(theirs, 100, "test"))
        finally:
            theirs.close()
            listener.join()
            if not reads:
                reader.start()
            elif reads is not True:
                starter.join()
            reader.join()
            near.close()
            ours.close()
        self.raw += self.reported.tail
        self.dones = self.reported.dones
        self.done = self.dones[0] if self.dones else None
        self.head, _, self.body = self.raw.partition(b"\r\n\r\n")
        self.lines = self.head.decode("latin-1").split("\r\n")

    def _listen(self, ours):
        self.reported = Reported(ours)

    def _read(self, near):
        with contextlib.suppress(ConnectionResetError):
            while data := near.recv(65536):
                self.raw += data


def sending(*messages):
    """An application that sends these messages; `b"..."` stands for a piece that more will follow."""

    async def application(scope, receive, send):
        assert scope["type"] == "http"
        for message in messages:
            if isinstance(message, bytes):
                message = {"type": "http.response.body", "body": message, "more_body": True}
            await send(message)

    return application


START = {"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1")]}
END = {"type": "http.response.body"}


class Responses(unittest.TestCase):
    def test_a_whole_body_has_its_length(self):
        found = Exchange(sending(START, {**END, "body": b"abc"}))
        self.assertIn("Content-Length: 3", found.lines)
        self.assertIn("x-a: 1", found.lines)
        self.assertEqual((found.body, found.done.flags, found.done.body_bytes), (b"abc", CLEAN, 3))

    def test_pieces_are_chunks(self):
        found = Exchange(sending(START, b"abc", b"de", END))
        self.assertEqual((found.body, found.done.flags), (b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", CLEAN))

    def test_pieces_for_http10_end_with_the_connection(self):
        found = Exchange(sending(START, b"abc", END), request_frame(5, 0, flags=KEEP | HTTP10, descriptors=1))
        self.assertEqual((found.body, found.done.flags), (b"abc", CLOSE))

    def test_the_last_piece_is_left_to_maitred(self):
        data = os.urandom(3_000_000)
        found = Exchange(sending(START, {**END, "body": data}), reads=False)
        self.assertTrue(found.body == data)
        self.assertEqual((set(found.reported.tails), found.done.flags), ({"file"}, CLEAN))

    def test_a_stream_waits_for_its_client(self):
        pieces = [os.urandom(100_000) for _ in range(30)]
        found = Exchange(sending(START, *pieces, END))
        self.assertTrue(found.body == b"".join(b"186a0\r\n" + piece + b"\r\n" for piece in pieces) + b"0\r\n\r\n")
        # Only the end itself is left to Maitred, if the client has not read all that was before it.
        self.assertTrue(b"0\r\n\r\n".endswith(found.reported.tail), found.reported.tails)

    def test_tasks_that_send_at_the_same_time_have_their_turns(self):
        pieces = [bytes([number]) * 300_000 for number in range(10)]

        async def application(scope, receive, send):
            if scope["type"] == "http":
                await send(START)
                await asyncio.gather(*(send({**END, "body": piece, "more_body": True}) for piece in pieces))
                await send(END)

        found = Exchange(application)
        self.assertTrue(found.body == b"".join(b"493e0\r\n" + piece + b"\r\n" for piece in pieces) + b"0\r\n\r\n")
        self.assertEqual((found.done.flags, found.log.getvalue()), (CLEAN, ""))

    def test_an_empty_piece_sends_the_head(self):
        found = Exchange(sending(START, b""))
        self.assertEqual((found.lines[0], found.body, found.done.flags), ("HTTP/1.1 200 OK", b"", 0))
        self.assertIn("before its response was complete", found.log.getvalue())

    def test_a_head_is_sent_though_its_body_takes_its_time(self):
        seen = threading.Event()

        class Watching(Exchange):
            def _read(self, near):
                while data := near.recv(65536):
                    self.raw += data
                    if self.raw.endswith(b"\r\n\r\n"):
                        seen.set()

        async def application(scope, receive, send):
            await send(START)
            # Only this says that the client has it.
            there = await asyncio.to_thread(seen.wait, 10)
            await send({**END, "body": b"%r" % there})

        found = Watching(application)
        self.assertEqual((found.lines[0], found.done.flags), ("HTTP/1.1 200 OK", CLEAN))
        self.assertEqual(found.body, b"4\r\nTrue\r\n0\r\n\r\n")

    def test_files(self):
        with tempfile.NamedTemporaryFile() as file:
            data = os.urandom(300_000)
            file.write(data)
            file.flush()
            named = {**START, "headers": [(b"x-sendfile", file.name.encode()), (b"content-length", b"0")]}
            for messages in (
                (START, {"type": "http.response.pathsend", "path": file.name}),
                (named, END),
                (named, b"", b"ignored", END),
            ):
                with mock.patch.dict(os.environ, MAITRED_PATHSEND="1"):
                    found = Exchange(sending(*messages), request_frame(5, 0, descriptors=1, meta=ROOTED))
                self.assertTrue(found.body == data)
                self.assertIn("Content-Length: 300000", found.lines)
                self.assertEqual((found.reported.tails, found.done.flags), (["file"], CLEAN))

    def test_pathsend_is_only_offered_if_it_is_asked_for(self):
        async def application(scope, receive, send):
            if scope["type"] == "http":
                await sending(START, {**END, "body": " ".join(scope["extensions"]).encode()})(scope, receive, send)

        for value, offered in (("1", b"http.response.pathsend"), ("0", b""), ("", b"")):
            with mock.patch.dict(os.environ, MAITRED_PATHSEND=value):
                self.assertEqual(Exchange(application).body, offered)
        found = Exchange(sending(START, {"type": "http.response.pathsend", "path": __file__}))
        self.assertEqual(found.done.status, 500)

    def test_early_hints(self):
        hint = {"type": "http.response.early_hint", "links": [b"</a>; rel=preload", b"</b>"]}
        frame = request_frame(5, 0, descriptors=1, meta=b"early_hints=1\nqueue_us=1\n")
        found = Exchange(sending(hint, START, hint, {**END, "body": b"abc"}), frame)
        self.assertEqual(found.lines, ["HTTP/1.1 103 Early Hints", "link: </a>; rel=preload", "link: </b>"])
        # What comes behind `http.response.start` is still before the response, of which nothing was sent.
        self.assertEqual((found.raw.count(b" 103 "), found.done.status, found.done.body_bytes), (2, 200, 3))
        found = Exchange(sending(START, b"abc", hint, END), frame)
        self.assertEqual((found.raw.count(b" 103 "), found.done.flags), (0, CLEAN))
        found = Exchange(sending(hint, START, {**END, "body": b"abc"}))
        self.assertEqual((found.raw.count(b" 103 "), found.done.status), (0, 200))
        found = Exchange(sending({**hint, "links": [b"a\nb"]}, START, END), frame)
        self.assertEqual((found.raw.count(b" 103 "), found.done.status), (0, 500))

    def test_a_piece_whose_send_was_cancelled_is_finished_before_the_next(self):
        data = os.urandom(3_000_000)
        stuck = threading.Event()

        async def application(scope, receive, send):
            if scope["type"] != "http":
                return
            await send(START)
            task = asyncio.ensure_future(send({**END, "body": data, "more_body": True}))
            # There is no reader yet, so that it waits for room.
            await asyncio.wait((task,), timeout=0.1)
            task.cancel()
            await asyncio.wait((task,))
            stuck.set()
            await send({**END, "body": b"last"})

        found = Exchange(application, reads=stuck)
        self.assertTrue(found.body == b"2dc6c0\r\n" + data + b"\r\n4\r\nlast\r\n0\r\n\r\n")
        self.assertEqual(found.done.flags, CLEAN)

    def test_failures_are_a_500_once(self):
        bad = {**START, "headers": [(b"x", b"a\nb")]}
        for messages in ((END,), (START,), (START, START, END), (bad, END), ({"type": "other"},), ()):
            found = Exchange(sending(*messages))
            self.assertEqual((found.done.status, found.raw.count(b"HTTP/1.1 ")), (500, 1), messages)
            self.assertIn("the application failed", found.log.getvalue())

    def test_a_late_failure_breaks_the_response(self):
        found = Exchange(sending(START, b"abc", {"type": "other"}))
        self.assertEqual((found.done.status, found.done.flags), (200, 0))

    def test_what_comes_after_the_end_changes_nothing(self):
        found = Exchange(sending(START, {**END, "body": b"abc"}, {**END, "body": b"more"}))
        self.assertEqual((found.body, found.done.flags), (b"abc", CLEAN))

    def test_exit_does_not_take_others_along(self):
        async def application(scope, receive, send):
            if scope["query_string"] == b"exit":
                raise SystemExit(3)
            await asyncio.sleep(0.01)
            await sending(START, {**END, "body": b"alive"})(scope, receive, send)

        found = Exchange(application, request_frame(5, 0, descriptors=1), request_frame(5, 1, "/?exit"), request_frame(5, 2))
        self.assertEqual([done.status for done in found.dones], [200, 500, 200])


class Requests(unittest.TestCase):
    def scope(self, frame):
        seen = []

        async def application(scope, receive, send):
            if scope["type"] == "http":
                seen.append(scope)
                await sending(START, END)(scope, receive, send)

        Exchange(application, frame)
        return seen[0]

    def test_the_scope_of_http(self):
        scope = self.scope(request_frame(5, 0, "/a%2Fb%C3%A9?x=%20", descriptors=1))
        expected = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "https",
            "path": "/a/bé",
            "raw_path": b"/a%2Fb%C3%A9",
            "query_string": b"x=%20",
            "root_path": "",
            "headers": [(b"host", b"example.com")],
            "client": ("2001:db8::1", 999),
            "server": ("192.0.2.1", 80),
            "state": {},
        }
        self.assertEqual({key: scope[key] for key in expected}, expected)

    def test_a_user_is_an_extension(self):
        for who, expected in (
            ("user=änn=b c\nauth_type=Basic\n", {"user": "änn=b c", "auth_type": "Basic"}),
            ("user=ann\n", {"user": "ann", "auth_type": ""}),
            ("", None),
            ("user=\nauth_type=Basic\n", None),
        ):
            scope = self.scope(request_frame(5, 0, "/", descriptors=1, meta=b"scheme=http\n" + who.encode()))
            self.assertEqual(scope["extensions"].get("maitred.identity"), expected, who)
            self.assertNotIn("user", scope, "that is the application's own")

    def test_the_mount_is_the_root_path(self):
        scope = self.scope(request_frame(5, 0, "/app/x", descriptors=1, meta=b"mount=/app\n"))
        self.assertEqual((scope["root_path"], scope["path"]), ("/app", "/app/x"))
        self.assertEqual((scope["client"], scope["server"]), (None, None))

    def test_a_spooled_body_comes_in_pieces(self):
        data, pieces = os.urandom(1_000_000), []

        async def application(scope, receive, send):
            more = scope["type"] == "http"
            while more:
                message = await receive()
                pieces.append(message["body"])
                more = message["more_body"]
            await sending(START, END)(scope, receive, send)

        with tempfile.TemporaryFile() as spool:
            spool.write(data)
            spool.flush()
            frame = request_frame(5, 0, descriptors=1, spooled=len(data))
            Exchange(application, frame, descriptors=[spool.fileno()])
        self.assertTrue(b"".join(pieces) == data)
        self.assertLess(max(map(len, pieces)), 300_000)

    def test_cancel_is_a_disconnect(self):
        seen = []

        async def application(scope, receive, send):
            if scope["type"] != "http":
                return
            await receive()
            seen.append(await receive())
            try:
                await send(START)
            except OSError as error:
                seen.append(type(error).__name__)

        found = Exchange(application, request_frame(5, 0, descriptors=1), cancel_frame(5, 0), cancel_frame(5, 0))
        self.assertEqual(seen, [{"type": "http.disconnect"}, "Disconnected"])
        self.assertEqual((found.done.status, found.done.flags, found.log.getvalue()), (0, 0, ""))

    def test_a_stream_that_is_listened_for_is_cancelled_before_its_send_fails(self):
        """As Starlette does it: what listens for the end cancels what sends. A failure there would be reported as one."""
        seen = []

        async def application(scope, receive, send):
            if scope["type"] != "http":
                return

            async def stream():
                try:
                    while True:
                        await send({**END, "body": b"x", "more_body": True})
                except BaseException as error:
                    seen.append(type(error).__name__)
                    raise

            await send(START)
            task = asyncio.ensure_future(stream())
            while (await receive())["type"] != "http.disconnect":
                pass
            task.cancel()
            await asyncio.wait((task,))

        # The compiled part writes by itself until the socket is full, which no reader empties.
        with mock.patch("maitred.asgi_http.os.write", side_effect=BrokenPipeError):
            found = Exchange(application, reads=False)
        self.assertEqual((found.done.flags, seen, found.log.getvalue()), (0, ["CancelledError"], ""))

    def test_a_request_behind_another_of_its_connection_can_be_cancelled(self):
        asked = []

        async def application(scope, receive, send):
            if scope["type"] == "http":
                asked.append(scope["path"])
                # One that answers within its first step would be over when the next request is looked at.
                await asyncio.sleep(0)
                await sending(START, END)(scope, receive, send)

        frames = [request_frame(5, n, f"/{n}", descriptors=int(n == 0)) for n in range(3)]
        found = Exchange(application, *frames, cancel_frame(5, 1), forget_frame(5))
        self.assertEqual(asked, ["/0", "/2"])
        self.assertEqual([done.status for done in found.dones], [200, 0, 200])

    def test_a_number_that_was_forgotten_is_another_connection(self):
        """Which does not wait for others: not for a request that was cancelled, and does not end."""
        before = len(os.listdir("/proc/self/fd"))
        answered = []

        async def application(scope, receive, send):
            if scope["type"] != "http":
                return
            if scope["path"] == "/held":
                held.append(asyncio.Event())
                await asyncio.wait_for(held[0].wait(), 10)
            await sending(START, {**END, "body": scope["path"].encode()})(scope, receive, send)
            answered.append(scope["path"])
            if scope["path"] == "/other":
                held[0].set()

        held = []
        near, far = socket.socketpair()
        far.setblocking(False)
        frames = request_frame(5, 0, "/held", descriptors=1), forget_frame(5), request_frame(5, 1, "/other", descriptors=1)
        found = Exchange(application, *frames, forget_frame(5), descriptors=[far.fileno()])
        far.close()
        self.assertEqual([(done.request, done.status) for done in found.dones], [(1, 200), (0, 200)])
        self.assertEqual((answered, found.body), (["/other", "/held"], b"/held"))
        self.assertTrue(near.recv(1000).endswith(b"/other"))
        self.assertEqual(near.recv(1000), b"", "its descriptor is closed")
        near.close()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_no_descriptor_is_left(self):
        before = len(os.listdir("/proc/self/fd"))
        Exchange(sending(START, b"x", END), *[request_frame(5, n, descriptors=int(n == 0)) for n in range(50)])
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)


class Abandoned(unittest.TestCase):
    def test_what_does_not_end_is_ended_when_the_server_is_gone(self):
        began, ended = threading.Event(), []

        async def application(scope, receive, send):
            if scope["type"] == "lifespan":
                raise NotImplementedError
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

        ours, theirs = socket.socketpair()
        master, recovery = socket.socketpair()
        near, far = small_pair()
        socket.send_fds(ours, [WELCOME_FRAME + request_frame(5, 0, descriptors=1)], [far.fileno()])

        def vanish():
            began.wait(30)
            master.close()
            ours.close()

        gone = threading.Thread(target=vanish)
        gone.start()
        with mock.patch("maitred.asgi._LEAVE_S", 0.0), contextlib.redirect_stderr(io.StringIO()):
            main = asgi.Worker(application).main(theirs, 100, "test", Recovery(recovery))
            asyncio.run(asyncio.wait_for(main, 30))
        gone.join()
        for each in (near, far, theirs, recovery):
            each.close()
        self.assertEqual(ended, [True])


class Lifespans(unittest.TestCase):
    def test_the_state_is_every_requests(self):
        events = []

        async def application(scope, receive, send):
            if scope["type"] == "http":
                events.append(scope["state"]["pool"])
                scope["state"]["pool"] = "changed"
                await sending(START, END)(scope, receive, send)
                return
            for _ in range(2):
                message = await receive()
                events.append(message["type"])
                scope["state"]["pool"] = "open"
                await send({"type": message["type"] + ".complete"})

        Exchange(application, request_frame(5, 0, descriptors=1), request_frame(5, 1))
        self.assertEqual(events, ["lifespan.startup", "open", "open", "lifespan.shutdown"])

    def test_a_startup_that_fails_is_said(self):
        async def application(scope, receive, send):
            await receive()
            await send({"type": "lifespan.startup.failed", "message": "no database"})

        with self.assertRaisesRegex(StartupFailed, "no database"):
            Exchange(application)

    def test_shutdown_follows_a_violation(self):
        events = []

        async def application(scope, receive, send):
            for _ in range(2):
                message = await receive()
                events.append(message["type"])
                await send({"type": message["type"] + ".complete"})

        with self.assertRaises(ProtocolError):
            Exchange(application, request_frame(5, 0))
        self.assertEqual(events, ["lifespan.startup", "lifespan.shutdown"])


def upgrade(early=b"", flags=KEEP | MAY_DETACH, fields=UPGRADE, target="/"):
    """A REQUEST for a WebSocket."""
    frame = request_frame(5, 0, target, flags=flags, body=early, descriptors=1)
    frame = frame.replace(b"content-length: %d\r\n" % len(early), b"") if early else frame
    frame = frame.replace(b"host: example.com\r\n", b"host: example.com\r\n" + fields)
    lost = len(b"content-length: %d\r\n" % len(early)) if early else 0
    payload, meta, head = struct.unpack_from("<I", frame)[0], *struct.unpack_from("<II", frame, 16)
    more = len(fields) - lost
    return struct.pack("<I", payload + more) + frame[4:20] + struct.pack("<I", head + more) + frame[24:]


class Echo:
    """A WebSocket that says everything again; `ended` is set when it has ended."""

    def __init__(self):
        self.ended, self.last = threading.Event(), None

    async def __call__(self, scope, receive, send):
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept", "headers": [(b"x-own", b"yes")]})
            while (message := await receive())["type"] == "websocket.receive":
                await send({**message, "type": "websocket.send"})
            self.last = message
            self.ended.set()


CLOSE_1000 = masked(8, struct.pack(">H", 1000))


class WebSockets(unittest.TestCase):
    def test_messages_go_both_ways(self):
        early = masked(BINARY, b"\0\1") + masked(9, b"ping") + CLOSE_1000
        echo = Echo()
        found = Exchange(echo, upgrade(masked(TEXT, b"early")), early=early, until=echo.ended)
        self.assertEqual(echo.last, {"type": "websocket.disconnect", "code": 1000, "reason": ""})
        self.assertEqual(found.lines[0], "HTTP/1.1 101 Switching Protocols")
        self.assertIn("x-own: yes", found.lines)
        frames = found.body
        for frame in (b"\x81\x05early", b"\x82\x02\0\1", b"\x8a\x04ping", b"\x88\x02\x03\xe8"):
            self.assertIn(frame, frames)
            frames = frames.replace(frame, b"", 1)
        self.assertEqual(frames, b"")
        self.assertEqual([done.flags for done in found.dones], [], "DETACH instead of DONE")

    def test_a_worker_that_ends_says_1001(self):
        echo = Echo()
        found = Exchange(echo, upgrade(), early=masked(8, struct.pack(">H", 1001)))
        self.assertTrue(found.body.endswith(b"\x88\x02\x03\xe9"))
        self.assertEqual(echo.last["code"], 1001)

    def test_a_refusal_with_a_response_of_its_own(self):
        headers = [(b"x-own", b"yes"), (b"connection", b"close")]
        start = {"type": "websocket.http.response.start", "status": 401, "headers": headers}
        body = {"type": "websocket.http.response.body", "body": b"who are you"}

        def refusing(*messages):
            async def application(scope, receive, send):
                if scope["type"] == "websocket":
                    assert "websocket.http.response" in scope["extensions"]
                    await receive()
                    for message in messages:
                        await send(message)

            return application

        found = Exchange(refusing(start, body), upgrade())
        self.assertEqual((found.done.status, found.done.flags, found.body), (401, CLEAN, b"who are you"))
        self.assertIn("x-own: yes", found.lines)
        self.assertIn("Content-Length: 11", found.lines)
        found = Exchange(refusing(start, {**body, "more_body": True}, {**body, "body": b"?"}), upgrade())
        self.assertEqual((found.done.flags, found.body), (CLEAN, b"b\r\nwho are you\r\n1\r\n?\r\n0\r\n\r\n"))
        for messages in ((start,), (body,), (start, {"type": "websocket.accept"}), (start, {"type": "websocket.close"})):
            self.assertEqual(Exchange(refusing(*messages), upgrade()).done.status, 500, messages)
        found = Exchange(refusing(start, {**body, "more_body": True}), upgrade())
        self.assertEqual((found.done.status, found.done.flags), (401, 0))
        self.assertEqual(Exchange(refusing(start, body, body), upgrade()).done.flags, CLEAN)

    def test_fields_of_the_connection_are_dropped_from_an_accept(self):
        async def application(scope, receive, send):
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.accept", "headers": [(b"Keep-Alive", b"timeout=5"), (b"x-own", b"yes")]})

        found = Exchange(application, upgrade(), early=CLOSE_1000)
        self.assertEqual((found.lines[0][9:12], "x-own: yes" in found.lines), ("101", True))
        self.assertNotIn("keep-alive", found.head.decode().lower())

    def test_the_scope_of_a_websocket(self):
        seen = []

        async def application(scope, receive, send):
            if scope["type"] == "lifespan":
                await receive()
                scope["state"]["answer"] = 42
                await send({"type": "lifespan.startup.complete"})
            if scope["type"] == "websocket":
                seen.append(scope)

        Exchange(application, upgrade())
        self.assertEqual(seen[0]["state"], {"answer": 42})
        self.assertEqual(seen[0]["asgi"], {"version": "3.0", "spec_version": "2.4"})
        self.assertEqual(seen[0]["extensions"], {"websocket.http.response": {}})

    def test_a_refusal_is_a_403(self):
        async def application(scope, receive, send):
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.close"})

        found = Exchange(application, upgrade())
        self.assertEqual((found.done.status, found.done.flags), (403, CLEAN))

    def test_an_application_that_fails_is_a_500_or_1011(self):
        async def application(scope, receive, send):
            if scope["type"] == "websocket":
                await receive()
                if scope["query_string"]:
                    await send({"type": "websocket.accept"})
                raise ValueError("not today")

        found = Exchange(application, upgrade())
        self.assertEqual(found.done.status, 500)
        self.assertIn("not today", found.log.getvalue())
        found = Exchange(application, upgrade(target="/?accept"), early=masked(8, struct.pack(">H", 1011)))
        self.assertIn("not today", found.log.getvalue())
        self.assertEqual((found.lines[0][9:12], found.dones), ("101", []))

    def test_without_the_flag_or_the_fields_it_is_http(self):
        def without(name):
            return b"".join(line for line in UPGRADE.splitlines(True) if not line.startswith(name))

        for frame in (upgrade(flags=KEEP), upgrade(fields=without(b"upgrade")), upgrade(fields=without(b"sec-websocket-key"))):
            found = Exchange(sending(START, {**END, "body": b"http"}), frame)
            self.assertEqual((found.body, found.done.status), (b"http", 200))

    def test_without_websockets_it_is_a_request_of_http(self):
        options = asgi.Options(websocket=asgi_websocket.Limits(enabled=False))
        found = Exchange(sending(START, {**END, "body": b"http"}), upgrade(), options=options)
        self.assertEqual((found.body, found.done.status), (b"http", 200))

    def test_a_message_over_the_limit_closes(self):
        options = asgi.Options(websocket=asgi_websocket.Limits(message_bytes_max=3))
        echo = Echo()
        Exchange(echo, upgrade(), early=masked(TEXT, b"four"), until=echo.ended, options=options)
        self.assertEqual(echo.last["code"], 1009)

    def test_a_violation_closes(self):
        echo = Echo()
        found = Exchange(echo, upgrade(), early=b"\x81\x01x", until=echo.ended)
        self.assertEqual(echo.last["code"], 1002)
        self.assertEqual(found.body[:4], b"\x88" + found.body[1:2] + b"\x03\xea")

    def test_a_client_that_says_nothing_is_asked_and_dropped(self):
        options = asgi.Options(websocket=asgi_websocket.Limits(ping_s=0.02, pong_s=0.02))
        seen = []

        async def application(scope, receive, send):
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.accept"})
                seen.append(await receive())
                stopped.set()

        stopped = threading.Event()
        ours, theirs = socket.socketpair()
        near, far = socket.socketpair()
        far.setblocking(False)
        socket.send_fds(ours, [WELCOME_FRAME + upgrade()], [far.fileno()])
        far.close()
        ender = threading.Thread(target=lambda: (stopped.wait(10), ours.shutdown(socket.SHUT_WR)))
        ender.start()
        asyncio.run(asgi.Worker(application, options).main(theirs, 1, "test"))
        ender.join()
        self.assertEqual(seen, [{"type": "websocket.disconnect", "code": 1006, "reason": ""}])
        self.assertIn(b"\x89\x00", near.recv(65536))
        for sock in (ours, near):
            sock.close()


if __name__ == "__main__":
    unittest.main()
