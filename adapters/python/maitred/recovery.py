"""The recovery socket: where this process gets another channel when the server's worker process has died (PROTOCOL.md, section 8)."""

import array
import asyncio
import os
import select
import socket

# How long to wait for another channel.
PATIENCE_S = 30.0


class Recovery:
    """Hands out channels. Nothing is read before the present one has ended: until then, even the end means nothing."""

    def __init__(self, sock):
        sock.setblocking(False)
        self.socket = sock

    def stop(self):
        """Ends a wait, now or later. Safe in a signal handler."""
        try:
            self.socket.shutdown(socket.SHUT_RD)
        except OSError:
            pass  # Maitred's end is gone already, which is as good.

    def wait(self):
        """Until there is something to take, or it takes too long."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        poll.poll(PATIENCE_S * 1000)

    async def wait_on(self, loop):
        """The same on an event loop."""
        there = loop.create_future()
        loop.add_reader(self.socket, lambda: there.done() or there.set_result(None))
        try:
            await asyncio.wait((there,), timeout=PATIENCE_S)
        finally:
            loop.remove_reader(self.socket)

    def take(self):
        """Another channel; None if there is none."""
        try:
            data, ancillary, _, _ = self.socket.recvmsg(1, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return None
        numbers = array.array("i")
        for level, kind, rights in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers.frombytes(rights[: len(rights) - len(rights) % numbers.itemsize])
        if not numbers:
            return None
        for more in numbers[1:]:
            os.close(more)
        return socket.socket(fileno=numbers[0])

    def close(self):
        """No other channel will be asked for."""
        self.socket.close()


class Recoverable:
    """What both kinds of channels have in common whose place another one may take. They have `_sock`, `_recovery` (a Recovery, or
    None), `_leaving`, `_open(sock)`, `hello()` and `close()`."""

    def stop_receiving(self):
        """Takes no more requests; those already received are still yielded. Safe in a signal handler.

        What Maitred sends from now on fails on its side with EPIPE, so no request is lost in between.
        """
        self._leaving = True
        if self._recovery is not None:
            self._recovery.stop()
        try:
            self._sock.shutdown(socket.SHUT_RD)
        except OSError:
            pass  # Maitred is gone already: the same end.

    def _recover(self):
        """Drops everything that the channel has brought, and takes another; False if there is none."""
        self.close()
        self._await_recovery(self._recovery)
        sock = None if self._leaving else self._recovery.take()
        if sock is None:
            return False
        self._open(sock)
        if self._leaving:
            # The signal came when this was not the channel yet.
            return False
        self.hello()
        return True

    def _await_recovery(self, recovery):
        """Until there may be another channel; where there is more to wait for, it may return early."""
        recovery.wait()
