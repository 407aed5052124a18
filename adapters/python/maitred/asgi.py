"""The worker of ASGI applications: requests run at the same time, on one event loop."""

import asyncio
import os
import signal
from collections import deque
from time import monotonic

from . import asgi_websocket, frames
from .asgi_http import Http, Writer, scope_of
from .async_channel import AsyncChannel
from .frames import CANCEL, FORGET, PING, REQUEST, SHUTDOWN, ProtocolError
from .lifespan import Lifespan

# How long applications have to let their WebSockets go when the worker ends.
_LEAVE_S = 10.0


def serve(sock, application, capacity, name):
    """Answers requests until the channel ends. Raises frames.ProtocolError and lifespan.StartupFailed."""
    asyncio.run(_Worker(application).main(sock, capacity, name))


class _Running:
    """A request that runs."""

    def __init__(self, exchange):
        self.exchange = exchange
        self.began = monotonic()


class _Worker:
    def __init__(self, application):
        self._application = application
        self._channel = None
        self._descriptors = {}
        # For each connection with a request that runs: what came for it since.
        self._waiting = {}
        self._running = {}
        self._tasks = set()
        self._sockets = set()
        self._state = {}

    async def main(self, sock, capacity, name):
        """From the startup of the application to its shutdown."""
        loop = asyncio.get_running_loop()
        lifespan = Lifespan(self._application)
        self._state = await lifespan.startup()
        self._channel = AsyncChannel(loop, sock, self._on_entry)
        loop.add_signal_handler(signal.SIGTERM, self._channel.stop_receiving)
        self._channel.start(capacity, name)
        try:
            await self._channel.ended
            await self._finish()
        finally:
            await self._channel.close()
            for descriptor in self._descriptors.values():
                os.close(descriptor)
            # Also after a violation: what the application opened is its to close.
            await lifespan.shutdown()

    async def _finish(self):
        """Lets everything that was received come to its end."""
        for exchange in self._sockets:
            exchange.leave()
        while self._tasks - {exchange.task for exchange in self._sockets}:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_LEAVE_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def _on_entry(self, entry):
        kind, connection, request = entry[:3]
        if kind == PING:
            self._channel.send([frames.pong(request)])
        elif kind == SHUTDOWN:
            self._channel.end()
        elif kind == CANCEL:
            self._cancel(connection, request)
        elif connection in self._waiting:
            # Responses of one connection keep their order, and its descriptor stays until they are out.
            self._waiting[connection].append(entry)
        elif kind == FORGET:
            self._forget(connection)
        else:
            self._start(entry)

    def _cancel(self, connection, request):
        running = self._running.get((connection, request))
        if running is not None:
            running.exchange.cancel()
            return
        waiting = self._waiting.get(connection, ())
        for at, entry in enumerate(waiting):
            if entry[:3] == (REQUEST, connection, request):
                if entry[8] is not None:
                    os.close(entry[8])
                waiting[at] = (*entry[:5], None, None, None, None)

    def _forget(self, connection):
        descriptor = self._descriptors.pop(connection, None)
        if descriptor is not None:
            os.close(descriptor)

    def _start(self, entry):
        """Begins with a request; does nothing more with one that was cancelled while it waited."""
        _, connection, request, flags, passed, meta, head, body, body_file = entry
        if passed is not None:
            self._forget(connection)
            self._descriptors[connection] = passed
        if head is None:
            self._channel.send([frames.done(connection, request, 0, 0, 0, 0)])
            return
        descriptor = self._descriptors.get(connection)
        if descriptor is None:
            raise ProtocolError(f"a REQUEST for connection {connection}, whose descriptor never came")
        writer = Writer(self._channel, connection, request, descriptor, flags)
        exchange = self._exchange(connection, request, flags, meta, head, body, body_file, writer)
        self._waiting[connection] = deque()
        self._running[connection, request] = running = _Running(exchange)
        task = asyncio.ensure_future(exchange.run())
        exchange.task = task
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._ended(task, connection, request, running))

    def _exchange(self, connection, request, flags, meta, head, body, body_file, writer):
        scope = scope_of(meta, head, flags)
        scope["state"] = self._state.copy()
        key = asgi_websocket.wanted(flags, scope)
        if key is None:
            scope["type"] = "http"
            scope["extensions"] = {"http.response.pathsend": {}}
            if flags & frames.MAY_DETACH:
                # Bytes of a protocol that is not spoken here. They stay Maitred's.
                body = b""
            return Http(self._application, scope, head, body, body_file, writer)

        def detach():
            self._channel.send([frames.detach(connection, request)])
            descriptor = self._descriptors.pop(connection)
            self._release(connection, request)
            self._sockets.add(exchange)
            return descriptor

        exchange = asgi_websocket.WebSocket(
            self._application, asgi_websocket.scope_for(scope), key, head, body, writer, detach
        )
        return exchange

    def _ended(self, task, connection, request, running):
        self._tasks.discard(task)
        exchange = running.exchange
        if exchange in self._sockets:
            self._sockets.discard(exchange)
            return
        writer = exchange.writer
        service_us = int((monotonic() - running.began) * 1_000_000)
        self._channel.send(
            [frames.done(connection, request, writer.outcome, writer.status, service_us, writer.body_bytes)]
        )
        self._release(connection, request)

    def _release(self, connection, request):
        """The connection's request is over: what came for it since is next."""
        self._running.pop((connection, request), None)
        waiting = self._waiting.pop(connection, ())
        while waiting and connection not in self._waiting:
            entry = waiting.popleft()
            if entry[0] == FORGET:
                self._forget(connection)
            else:
                try:
                    self._start(entry)
                except ProtocolError as error:
                    self._channel.end(error)
        if waiting:
            self._waiting[connection] = waiting
