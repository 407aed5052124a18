"""asgi._Session with the compiled part in its place: ordinary requests run there, and all others as they do without it."""

import asyncio
import functools
import sys
from time import monotonic

from . import frames, log
from .asgi import _Running, _Session
from .asgi_http import PATHSEND, Http, Writer, is_about_the_client, scope_of
from .async_channel import AsyncChannel
from .environ import meta_of
from .native import library
from .tail import ClientGone, Tail


class _Channel(AsyncChannel):
    """One whose frames the library reads."""

    def __init__(self, loop, sock, core):
        super().__init__(loop, sock, None)
        self._core = core

    def _readable(self):
        try:
            more = self._core.readable()
        except frames.ProtocolError as error:
            self.end(error)
            return
        if not more:
            self.end()


class Session(_Session):
    """One channel. The library calls what has no underscore in front."""

    def __init__(self, worker, loop, sock):
        self._worker = worker
        self._loop = loop
        self._core = library.Session()
        self.channel = _Channel(loop, sock, self._core)
        self.told = False
        # Detaches and releases, as a Connections does.
        self._connections = self._core
        # Requests that run in Python.
        self._running = {}
        options = worker.options
        hooks = options.change_scope, options.on_response, None if options.requests_max is None else worker.count
        self._core.open(
            sock.fileno(),
            self,
            loop.call_soon,
            _starter(loop, worker.application),
            functools.partial(_base_of, pathsend=worker.pathsend),
            worker.state,
            [(bytes(name), bytes(value)) for name, value in options.headers],
            worker.tasks,
            hooks,
        )

    async def close(self):
        """As that of asgi._Session."""
        self._core.flush()
        await self.channel.close()
        self._core.drop_all()

    def drop(self):
        """As that of asgi._Session."""
        for running in list(self._running.values()):
            running.exchange.writer.disown()
            running.exchange.cancel()
        self.channel.drop()
        self._core.drop_all()

    def begin(self, entry, descriptor):
        """Begins with a request that is not ordinary."""
        self._begin(entry, descriptor)

    def cancel_running(self, connection, request):
        """The client of a request that may run in Python has gone."""
        running = self._running.get((connection, request))
        if running is not None:
            running.exchange.cancel()

    def on_shutdown(self):
        """This is the end."""
        self.told = True
        self.channel.end()

    def on_violation(self, error):
        """The server broke the protocol, as a request shows that has waited."""
        self.channel.end(error)

    def send_now(self, data):
        """Frames that leave with what else waits."""
        self.channel.send_now(data)

    def wait_for_body(self, exchange):
        """The head of this one has been said."""
        self._worker.late_heads.add(exchange)

    def body_has_come(self, exchange):
        """It need not be looked at any more."""
        self._worker.late_heads.discard(exchange)

    def leave_rest(self, connection, request, descriptor, rest, head):
        """Leaves the rest of a response that is complete to Maitred: what stands before a part of a piece, that, and what stands
        behind it. False if that fails."""
        before, data, start, end, behind = rest
        tail = Tail(self.channel, connection, request, descriptor, False)
        try:
            if before:
                tail.write(before)
            if start < end:
                tail.last(data, start, end)
            if behind:
                tail.write(behind)
            tail.end()
        except ClientGone:
            return False
        except OSError:
            log.failure(head)
            return False
        return True

    def go_on_with(self, numbers, descriptor, what, began_s, start, body):
        """A request that turns out not to be ordinary: the asgi_http.Http that goes on with it."""
        connection, request, flags = numbers
        scope, meta, head, data = what
        writer = Writer(self.channel, connection, request, descriptor, flags, meta)
        writer.headers = self._worker.options.headers
        exchange = Http(self._worker.application, scope, head, data, None, writer, self._worker.late_heads)
        self._running[connection, request] = running = _Running(exchange)
        running.began = monotonic() - began_s
        exchange.on_complete = lambda: self._complete(connection, request, running)
        exchange.go_on(start, *body)
        return exchange


def _starter(loop, application):
    """What makes a task of an exchange; `at_once` if it may run before the call returns."""
    plain = loop.create_task if loop.get_task_factory() is not None else functools.partial(asyncio.Task, loop=loop)
    eager = plain
    if loop.get_task_factory() is None and sys.version_info >= (3, 12):
        eager = functools.partial(asyncio.Task, loop=loop, eager_start=True)

    def start(exchange, at_once):
        return (eager if at_once else plain)(_run(exchange, application))

    return start


async def _run(exchange, application):
    """As asgi_http.Http.run. `receive` and `send` are coroutine functions, as applications and their libraries expect: what they
    do is done by the task that awaits it, in the loop's thread, and not if that is cancelled before."""
    take, say = exchange.take, exchange.say

    async def receive():
        message = take()
        return await _until_over(exchange) if message is None else message

    async def send(message):
        waits = say(message)
        if waits is not None:
            await waits

    try:
        await application(exchange.scope, receive, send)
        if not exchange.over:
            raise RuntimeError("the application returned before its response was complete")
    except asyncio.CancelledError:
        pass  # The whole worker ends.
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # Whatever it is, the request ends.
        if not is_about_the_client(error):
            log.failure(exchange.head)
            exchange.fail()
    exchange.end()


async def _until_over(exchange):
    """The client's end, or another message of a request that has gone on in Python."""
    if exchange.python is not None:
        return await exchange.python._receive()
    future = asyncio.get_running_loop().create_future()
    exchange.wait(future)
    try:
        await future
    finally:
        # Applications that only look whether the client is there cancel this, again and again.
        exchange.wait_no_longer(future)
    return {"type": "http.disconnect"}


def _base_of(meta, pathsend):
    """What scopes of requests with this meta part have in common: the scope, two of its dictionaries, and the mount."""
    scope = scope_of(meta, b"GET / HTTP/1.1\r\n\r\n", 0)
    scope["type"] = "http"
    scope["root_path"] = meta_of(meta).get("mount", "")
    if pathsend:
        scope["extensions"][PATHSEND] = {}
    return scope, scope["asgi"], scope["extensions"], scope["root_path"]
