"""ASGI applications that treat the compiled part badly: what they await, when and where; what they keep; odd messages."""

import asyncio
import collections.abc
import contextlib
import gc
import inspect
import socket
import threading
import unittest
import weakref

from maitred import asgi, native
from maitred.frames import CLEAN, KEEP
from tests.frames import request_frame
from tests.test_asgi import END, START, Exchange

HEAD_FRAME = request_frame(5, 0, method="HEAD", flags=KEEP, descriptors=1)


def on_http(handler):
    """An application without a lifespan."""

    async def application(scope, receive, send):
        assert scope["type"] == "http"
        await handler(scope, receive, send)

    return application


class Awaited(unittest.TestCase):
    """`receive` and `send` are coroutine functions."""

    def test_libraries_take_them_for_what_they_are(self):
        seen = []

        @on_http
        async def application(scope, receive, send):
            coroutine = send(START)
            seen.append((inspect.iscoroutinefunction(send), inspect.iscoroutinefunction(receive), inspect.iscoroutine(coroutine)))
            await coroutine
            with contextlib.suppress(RuntimeError):
                await coroutine
                seen.append("twice")
            await send(END)

        self.assertEqual(Exchange(application).done.flags, CLEAN)
        self.assertEqual(seen, [(True, True, True)])

    def test_a_body_that_nobody_waited_for_is_not_lost(self):
        seen = []

        @on_http
        async def application(scope, receive, send):
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(receive(), 0)
            task = asyncio.ensure_future(receive())
            task.cancel()
            await asyncio.wait([task])
            seen.append(await receive())
            await send(START)
            await send(END)

        Exchange(application, request_frame(5, 0, body=b"abc", descriptors=1))
        self.assertEqual([message["body"] for message in seen], [b"abc"])

    def test_what_was_cancelled_before_it_began_is_not_sent(self):
        @on_http
        async def application(scope, receive, send):
            await send(START)
            task = asyncio.ensure_future(send({**END, "body": b"wrong"}))
            task.cancel()
            await asyncio.wait([task])
            await send({**END, "body": b"right"})

        self.assertEqual(Exchange(application).body, b"right")

    def test_failures_are_those_of_the_task_that_sends(self):
        seen = []

        @on_http
        async def application(scope, receive, send):
            seen.extend(await asyncio.gather(send({}), send({"type": 5}), send(None), return_exceptions=True))
            await send(START)
            await send(END)

        self.assertEqual(Exchange(application).done.flags, CLEAN)
        self.assertEqual([type(error) for error in seen], [KeyError, RuntimeError, TypeError])

    def test_another_thread_has_the_loop_send(self):
        seen = []

        class Message(collections.abc.Mapping):
            def __init__(self, values):
                self.values = values

            def __getitem__(self, key):
                seen.append(threading.get_ident())
                return self.values[key]

            def __iter__(self):
                return iter(self.values)

            def __len__(self):
                return len(self.values)

        @on_http
        async def application(scope, receive, send):
            loop = asyncio.get_running_loop()

            def other():
                for message in (START, END):
                    asyncio.run_coroutine_threadsafe(send(Message(message)), loop).result(10)

            await loop.run_in_executor(None, other)

        self.assertEqual(Exchange(application).done.flags, CLEAN)
        self.assertEqual(set(seen), {threading.get_ident()})

    def test_looking_for_the_client_again_and_again_leaves_nothing(self):
        seen = []

        def futures():
            gc.collect()
            return sum(isinstance(one, asyncio.Future) for one in gc.get_objects())

        @on_http
        async def application(scope, receive, send):
            await receive()
            before = futures()
            for _ in range(100):
                task = asyncio.ensure_future(receive())
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
            del task
            seen.append(futures() - before)
            await send(START)
            await send(END)

        Exchange(application)
        self.assertLess(seen[0], 10)


class Messages(unittest.TestCase):
    def test_fields_that_can_be_read_once(self):
        for frame in (request_frame(5, 0, descriptors=1), HEAD_FRAME):

            @on_http
            async def application(scope, receive, send):
                await send({**START, "headers": (pair for pair in [(b"x-a", b"1"), (b"connection", b"x"), (b"x-b", b"2")])})
                await send({**END, "body": b"abc"})

            found = Exchange(application, frame)
            self.assertIn("x-a: 1", found.lines)
            self.assertIn("x-b: 2", found.lines)
            self.assertIn("Content-Length: 3", found.lines)

    def test_a_message_that_changes_after_it_was_sent(self):
        @on_http
        async def application(scope, receive, send):
            message = {**START, "headers": [(b"x-a", b"1")]}
            await send(message)
            message["headers"][:] = [(b"x-b", b"2")]
            message["status"] = 500
            await send({**END, "body": b"abc"})

        found = Exchange(application, HEAD_FRAME)
        self.assertEqual((found.done.status, found.lines[1]), (200, "x-a: 1"))

    def test_values_whose_code_sends(self):
        """What a message holds may come back to the adapter."""
        wrong = []

        @on_http
        async def application(scope, receive, send):
            def again():
                coroutine = send({**START, "status": 201})
                try:
                    coroutine.send(None)
                except StopIteration:
                    pass
                except BaseException as error:
                    wrong.append(type(error))

            class Status(int):
                def __index__(self):
                    again()
                    return 200

                def __format__(self, how):
                    again()
                    return "200"

            class Number:
                def __index__(self):
                    again()
                    return 200

            class Name(bytes):
                def __bytes__(self):
                    again()
                    return b"x-a"

            class More:
                def __bool__(self):
                    again()
                    return True

            for message in ({**START, "status": Number()}, {**START, "status": Status(200), "headers": [(Name(b"x-a"), b"1")]}):
                with contextlib.suppress(Exception):
                    await send(message)
            await send({**END, "body": b"abc", "more_body": More()})
            await send(END)

        found = Exchange(application)
        self.assertEqual({error.__name__ for error in wrong} - {"RuntimeError", "TypeError"}, set(), found.log.getvalue())
        self.assertEqual(found.done.flags, CLEAN, found.log.getvalue())

    def test_a_dictionary_of_its_own(self):
        class Message(dict):
            def __getitem__(self, key):
                return {"type": "http.response.start", "status": 204, "headers": []}[key]

        @on_http
        async def application(scope, receive, send):
            await send(Message(START))
            await send(END)

        self.assertEqual(Exchange(application).done.status, 204)


class Failures(unittest.TestCase):
    def test_what_is_no_exception_ends_the_request(self):
        class Odd(BaseException):
            pass

        for error in (Odd("on purpose"), SystemExit(3), RecursionError("on purpose")):

            @on_http
            async def application(scope, receive, send):
                raise error

            found = Exchange(application)
            self.assertEqual([done.status for done in found.dones], [500])
            self.assertIn(type(error).__name__, found.log.getvalue())


class Kept(unittest.TestCase):
    def test_a_scope_that_holds_send_is_collected(self):
        seen = []

        class Marker:
            pass

        @on_http
        async def application(scope, receive, send):
            scope["mine"] = marker = Marker()
            marker.kept = scope, receive, send
            seen.append(weakref.ref(marker))
            await send(START)
            await send({**END, "body": scope["path"].encode()})

        for frame in (request_frame(5, 0, descriptors=1), HEAD_FRAME):
            Exchange(application, frame)
        gc.collect()
        self.assertEqual([one() for one in seen], [None, None])

    def test_a_channel_that_has_ended_is_collected(self):
        @on_http
        async def application(scope, receive, send):
            await send(START)
            await send(END)

        def sessions():
            gc.collect()
            return [type(one).__name__ for one in gc.get_objects() if isinstance(one, asgi._Session)]

        Exchange(application)
        self.assertEqual(sessions(), [])

    def test_what_a_hook_does_while_a_request_is_prepared(self):
        """The hook receives for a request that runs."""
        kept, seen = [], []

        @on_http
        async def application(scope, receive, send):
            if scope["path"] == "/waits":
                kept.append((receive, asyncio.Event()))
                await kept[0][1].wait()
            else:
                kept[0][1].set()
            await send(START)
            await send(END)

        def change(scope):
            for receive, _ in kept:
                for _ in range(2):
                    coroutine = receive()
                    try:
                        coroutine.send(None)
                    except StopIteration as end:
                        seen.append(end.value["type"])
                    finally:
                        coroutine.close()

        near, far = socket.socketpair()
        with near, far:
            frames = [request_frame(5, 0, "/waits", descriptors=1), request_frame(6, 1, descriptors=1), request_frame(6, 2)]
            found = Exchange(
                application, *frames, descriptors=[far.fileno()], options=asgi.Options(change_scope=change)
            )
        self.assertEqual({done.flags for done in found.dones}, {CLEAN}, found.log.getvalue())
        self.assertEqual((len(found.dones), seen[:1]), (3, ["http.request"]))

    def test_many_requests_at_once_on_one_connection(self):
        @on_http
        async def application(scope, receive, send):
            await send(START)
            await send({**END, "body": b"a"})

        frames = [request_frame(5, number, descriptors=int(not number), meta=b"") for number in range(1100)]
        self.assertEqual([done.request for done in Exchange(application, *frames).dones], list(range(1100)))


@unittest.skipIf(native.library is None, f"there is no compiled part: {native.why_not}")
class Compiled(unittest.TestCase):
    def test_these_tests_run_it(self):
        self.assertNotEqual(asgi._session_class(), asgi._Session)


if __name__ == "__main__":
    unittest.main()
