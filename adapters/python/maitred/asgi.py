"""The worker of ASGI applications: requests run at the same time, on one event loop."""

import asyncio
import os
import signal
from time import monotonic
from typing import Callable, NamedTuple, Optional

from . import asgi_websocket, frames
from .asgi_http import PATHSEND, Http, Writer, scope_of
from .async_channel import AsyncChannel
from .connections import Connections
from .frames import CANCEL, PING, SHUTDOWN, ProtocolError
from .late_heads import LateHeads
from .lifespan import Lifespan
from .native import library
from .streamed import AsyncBody

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


def loop_factory(name):
    """What makes event loops of this kind: asyncio, uvloop, or auto, which is uvloop where it is installed. None for asyncio's own.
    Raises ImportError."""
    if name == "asyncio":
        return None
    try:
        from uvloop import new_event_loop
    except ImportError:
        if name == "uvloop":
            raise
        return None
    return new_event_loop


def run(coroutine, factory):
    """asyncio.run, on a loop of this factory's."""
    if factory is None:
        asyncio.run(coroutine)
        return
    loop = factory()
    try:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(coroutine)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        asyncio.set_event_loop(None)
        loop.close()


def serve(sock, application, capacity, name, recovery=None, factory=None):
    """Answers requests until the channel ends. Raises frames.ProtocolError and lifespan.StartupFailed."""
    run(Worker(application).main(sock, capacity, name, recovery), factory)


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
        # WebSockets: no other process has them, and they stay open when the channel that has brought them ends.
        self.sockets = set()
        self._requests = 0
        self._recovery = None
        self._session = None
        self._leaving = False
        # There is no master any more that would give this process a channel, or end it.
        self._abandoned = False

    async def main(self, sock, capacity, name, recovery=None):
        """From the startup of the application to its shutdown."""
        loop = asyncio.get_running_loop()
        lifespan = self.options.lifespan() if self.options.lifespan else Lifespan(self.application)
        self.state = await lifespan.startup()
        self._recovery = recovery
        session = _session_class()
        self._session = session(self, loop, sock)
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
                    self._abandoned = not self._leaving
                    break
                self._session = session(self, loop, sock)
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
        finish_s = self.options.finish_s
        if self._abandoned and (finish_s is None or finish_s > _LEAVE_S):
            finish_s = _LEAVE_S
        deadline = None if finish_s is None else monotonic() + finish_s
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


def _session_class():
    """The class of a channel's session: the compiled part's, if there is one."""
    if library is None:
        return _Session
    from .native_session import Session

    return Session


class _Session:
    """One channel, its connections and the requests that it has brought."""

    def __init__(self, worker, loop, sock):
        self._worker = worker
        self.channel = AsyncChannel(loop, sock, self._on_entry)
        # Whether the server has said that this is the end.
        self.told = False
        self._connections = Connections(self._begin, self._skip, self.channel.end)
        self._running = {}

    async def close(self):
        """Sends what waits, and closes the channel and all descriptors."""
        await self.channel.close()
        self._connections.close()

    def drop(self):
        """The channel is lost: what runs is cancelled, and what has not begun never will."""
        for running in list(self._running.values()):
            running.exchange.writer.disown()
            running.exchange.cancel()
        self._connections.drop_waiting()
        self.channel.drop()
        self._connections.close()

    def _on_entry(self, entry):
        kind, connection, request = entry[:3]
        if kind == PING:
            self.channel.send([frames.pong(request)])
        elif kind == SHUTDOWN:
            self.told = True
            self.channel.end()
        elif kind == CANCEL:
            self._cancel(connection, request)
        else:
            self._connections.take(entry)

    def _cancel(self, connection, request):
        running = self._running.get((connection, request))
        if running is not None:
            running.exchange.cancel()
        else:
            self._connections.cancel(connection, request)

    def _skip(self, connection, request):
        self.channel.send([frames.done(connection, request, 0, 0, 0, 0)])

    def _begin(self, entry, descriptor):
        _, connection, request, flags, _, meta, head, body, body_file = entry
        writer = Writer(self.channel, connection, request, descriptor, flags, meta)
        writer.headers = self._worker.options.headers
        exchange = self._exchange(connection, request, flags, meta, head, body, body_file, writer, descriptor)
        self._running[connection, request] = running = _Running(exchange)
        exchange.on_complete = lambda: self._complete(connection, request, running)
        self._worker.count()
        task = asyncio.ensure_future(exchange.run())
        exchange.task = task
        self._worker.tasks.add(task)
        task.add_done_callback(self._worker.tasks.discard)

    def _exchange(self, connection, request, flags, meta, head, body, body_file, writer, descriptor):
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
            streamed = AsyncBody(descriptor, meta, head, writer.ask) if flags & frames.BODY_STREAM else None
            return Http(
                self._worker.application, scope, head, body, body_file, writer, self._worker.late_heads, streamed
            )

        def detach():
            self.channel.send([frames.detach(connection, request)])
            descriptor = self._connections.detach(connection, request)
            self._release(connection, request)
            self._worker.sockets.add(exchange)
            return descriptor

        exchange = asgi_websocket.WebSocket(
            self._worker.application, asgi_websocket.scope_for(scope), key, head, body, writer, detach, limits
        )
        return exchange

    def _complete(self, connection, request, running):
        """The response is out, or aborted; the application may go on. Comes once for each request."""
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
        self._running.pop((connection, request), None)
        self._connections.release(connection, request)
