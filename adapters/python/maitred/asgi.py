"""The worker of ASGI applications: requests run at the same time, on one event loop."""

import asyncio
import os
import signal
from collections import deque
from time import monotonic
from typing import Callable, NamedTuple, Optional

from . import asgi_websocket, frames
from .asgi_http import PATHSEND, Http, Writer, scope_of
from .async_channel import AsyncChannel
from .channel import close_all
from .frames import CANCEL, FORGET, PING, REQUEST, SHUTDOWN, ProtocolError
from .late_heads import LateHeads
from .lifespan import Lifespan

# How long applications have to let their WebSockets go when the worker ends.
_LEAVE_S = 10.0


class Options(NamedTuple):
    """What can be different from the ordinary."""

    # Stands for lifespan.Lifespan: called with nothing.
    lifespan: Optional[Callable] = None
    # Changes the scope of a request before the application gets it; called with the scope.
    change_scope: Optional[Callable] = None
    # Called with (scope, status) after each response; WebSockets included, whose status is 101 if they were accepted.
    on_response: Optional[Callable] = None
    # Pairs of bytes: the fields that each response has in front of its own.
    headers: tuple = ()
    # Requests after which this process ends in an orderly way.
    requests_max: Optional[int] = None
    # How long requests that run may take when the worker ends, in seconds; None: as long as they want.
    finish_s: Optional[float] = None
    websocket: asgi_websocket.Limits = asgi_websocket.Limits()


def serve(sock, application, capacity, name, recovery=None):
    """Answers requests until the channel ends. Raises frames.ProtocolError and lifespan.StartupFailed."""
    asyncio.run(Worker(application).main(sock, capacity, name, recovery))


class _Running:
    """A request that runs."""

    def __init__(self, exchange):
        self.exchange = exchange
        self.began = monotonic()


class Worker:
    """The application, and the requests that run, of one channel after another."""

    def __init__(self, application, options=Options()):
        self.application = application
        self.options = options
        # Only if it is asked for: middleware that changes bodies (compression) does not know the message, or lets it pass.
        self.pathsend = os.environ.get("MAITRED_PATHSEND") == "1"
        self.state = {}
        self.late_heads = LateHeads()
        self.tasks = set()
        # WebSockets: they are nobody else's, and outlive the channel that has brought them.
        self.sockets = set()
        self._requests = 0
        self._recovery = None
        self._session = None
        self._leaving = False

    async def main(self, sock, capacity, name, recovery=None):
        """From the startup of the application to its shutdown."""
        loop = asyncio.get_running_loop()
        lifespan = self.options.lifespan() if self.options.lifespan else Lifespan(self.application)
        self.state = await lifespan.startup()
        self._recovery = recovery
        self._session = _Session(self, loop, sock)
        loop.add_signal_handler(signal.SIGTERM, self.leave)
        try:
            while True:
                self._session.channel.start(capacity, name, recovery is not None)
                await self._session.channel.ended
                if recovery is None or self._leaving or self._session.told:
                    break
                self._session.drop()
                await recovery.wait_on(loop)
                sock = None if self._leaving else recovery.take()
                if sock is None:
                    break
                self._session = _Session(self, loop, sock)
            await self._finish()
        finally:
            await self._session.close()
            # Also after a violation: what the application opened is its to close.
            await lifespan.shutdown()

    def leave(self):
        """Takes no more requests than the kernel has for this process."""
        self._leaving = True
        if self._recovery is not None:
            self._recovery.stop()
        self._session.channel.stop_receiving()

    def count(self):
        """Another request begins."""
        self._requests += 1
        if self._requests == self.options.requests_max:
            self.leave()

    def tell(self, exchange, status):
        """A response is out."""
        if self.options.on_response is not None:
            self.options.on_response(exchange.scope, status)

    async def _finish(self):
        """Lets everything that was received come to its end."""
        for exchange in self.sockets:
            exchange.leave()
        deadline = None if self.options.finish_s is None else monotonic() + self.options.finish_s
        while self.tasks - {exchange.task for exchange in self.sockets}:
            left = None if deadline is None else max(0.0, deadline - monotonic())
            done, _ = await asyncio.wait(self.tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                break
        if self.tasks:
            _, late = await asyncio.wait(self.tasks, timeout=_LEAVE_S if self.sockets else 0)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)


class _Session:
    """One channel, its connections and the requests that it has brought."""

    def __init__(self, worker, loop, sock):
        self._worker = worker
        self.channel = AsyncChannel(loop, sock, self._on_entry)
        # Whether the server has said that this is the end.
        self.told = False
        self._descriptors = {}
        # For each connection with a request that runs: what came for it since.
        self._waiting = {}
        self._running = {}
        # The request that runs for each of them, and the descriptors of those whose connection was forgotten meanwhile: by then
        # its number may be another connection's, which waits for nobody.
        self._current = {}
        self._parted = {}

    async def close(self):
        """Sends what waits, and closes the channel and all descriptors."""
        await self.channel.close()
        self._close_descriptors()

    def drop(self):
        """The channel is lost: nobody waits for what runs, and what has not begun never will."""
        for running in list(self._running.values()):
            running.exchange.writer.disown()
            running.exchange.cancel()
        for waiting in self._waiting.values():
            for entry in waiting:
                close_all(entry)
            waiting.clear()
        self.channel.drop()
        self._close_descriptors()

    def _close_descriptors(self):
        for descriptor in [*self._descriptors.values(), *self._parted.values()]:
            os.close(descriptor)
        self._descriptors.clear()
        self._parted.clear()

    def _on_entry(self, entry):
        kind, connection, request = entry[:3]
        if kind == PING:
            self.channel.send([frames.pong(request)])
        elif kind == SHUTDOWN:
            self.told = True
            self.channel.end()
        elif kind == CANCEL:
            self._cancel(connection, request)
        elif kind == FORGET and connection in self._waiting and not self._waiting[connection]:
            self._part(connection)
        elif connection in self._waiting:
            # Responses of one connection keep their order, and its descriptor stays until they are out.
            self._waiting[connection].append(entry)
        elif kind == FORGET:
            self._forget(connection)
        else:
            self._start(entry)

    def _part(self, connection):
        """The connection is forgotten while its last request runs."""
        del self._waiting[connection]
        request = self._current.pop(connection)
        if connection in self._descriptors:
            self._parted[connection, request] = self._descriptors.pop(connection)

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
            self.channel.send([frames.done(connection, request, 0, 0, 0, 0)])
            return
        descriptor = self._descriptors.get(connection)
        if descriptor is None:
            raise ProtocolError(f"a REQUEST for connection {connection}, whose descriptor never came")
        writer = Writer(self.channel, connection, request, descriptor, flags, meta)
        writer.headers = self._worker.options.headers
        exchange = self._exchange(connection, request, flags, meta, head, body, body_file, writer)
        self._waiting[connection] = deque()
        self._current[connection] = request
        self._running[connection, request] = running = _Running(exchange)
        exchange.on_complete = lambda: self._complete(connection, request, running)
        self._worker.count()
        task = asyncio.ensure_future(exchange.run())
        exchange.task = task
        self._worker.tasks.add(task)
        task.add_done_callback(self._worker.tasks.discard)

    def _exchange(self, connection, request, flags, meta, head, body, body_file, writer):
        scope = scope_of(meta, head, flags)
        scope["state"] = self._worker.state.copy()
        if self._worker.options.change_scope is not None:
            self._worker.options.change_scope(scope)
        limits = self._worker.options.websocket
        key = asgi_websocket.wanted(flags, scope) if limits.enabled else None
        if key is None:
            scope["type"] = "http"
            if self._worker.pathsend:
                scope["extensions"][PATHSEND] = {}
            if flags & frames.MAY_DETACH:
                # Bytes of a protocol that is not spoken here. They stay Maitred's.
                body = b""
            return Http(self._worker.application, scope, head, body, body_file, writer, self._worker.late_heads)

        def detach():
            self.channel.send([frames.detach(connection, request)])
            parted = self._parted.pop((connection, request), None)
            descriptor = self._descriptors.pop(connection) if parted is None else parted
            self._release(connection, request)
            self._worker.sockets.add(exchange)
            return descriptor

        exchange = asgi_websocket.WebSocket(
            self._worker.application, asgi_websocket.scope_for(scope), key, head, body, writer, detach, limits
        )
        return exchange

    def _complete(self, connection, request, running):
        """The response is out, or given up; the application may go on. Comes once for each request."""
        exchange = running.exchange
        if exchange in self._worker.sockets:
            self._worker.sockets.discard(exchange)
            self._worker.tell(exchange, 101)
            return
        writer = exchange.writer
        service_us = int((monotonic() - running.began) * 1_000_000)
        self.channel.send(
            [frames.done(connection, request, writer.outcome, writer.status, service_us, writer.body_bytes)]
        )
        self._worker.tell(exchange, writer.status)
        self._release(connection, request)

    def _release(self, connection, request):
        """The connection's request is over: what came for it since is next."""
        self._running.pop((connection, request), None)
        if self._current.get(connection) != request:
            # It was forgotten: the number is nobody's, or another connection's.
            descriptor = self._parted.pop((connection, request), None)
            if descriptor is not None:
                os.close(descriptor)
            return
        del self._current[connection]
        waiting = self._waiting.pop(connection, ())
        while waiting and connection not in self._waiting:
            entry = waiting.popleft()
            if entry[0] == FORGET:
                self._forget(connection)
            else:
                try:
                    self._start(entry)
                except ProtocolError as error:
                    self.channel.end(error)
        if waiting:
            self._waiting[connection] = waiting
