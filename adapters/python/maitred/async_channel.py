"""The channel of a worker that answers many requests at a time, on an event loop."""

import asyncio
import os
import socket

from . import frames
from .channel import RETRY_S, receive_message, send_message, will_take_descriptors

# The kernel takes at most 253 descriptors with one message.
_RIGHTS_AT_ONCE = 200


class AsyncChannel:
    """Calls `on_entry` with each entry of frames.Decoder; what it raises ends the channel as a ProtocolError does."""

    def __init__(self, loop, sock, on_entry):
        self._loop = loop
        self._sock = sock
        self._on_entry = on_entry
        self._decoder = frames.Decoder()
        self._out = []
        self._rights = []
        self._flushing = False
        self._blocked = False
        # The timer at whose end what is blocked is tried again, because nothing reports that there is room for descriptors.
        self._retry = None
        self._closed = False
        sock.setblocking(False)
        # Its result is None at the end of the channel; it has an exception if the server broke the protocol.
        self.ended = loop.create_future()

    def start(self, capacity, name, recovers=False):
        """Says HELLO and listens."""
        self.send([frames.greeting(capacity, name, recovers)])
        self._loop.add_reader(self._sock, self._readable)

    def stop_receiving(self):
        """Takes no more requests than the kernel has for this process."""
        try:
            self._sock.shutdown(socket.SHUT_RD)
        except OSError:
            pass  # Maitred is gone already: the same end.

    def end(self, error=None):
        """Nothing more is read."""
        self._loop.remove_reader(self._sock)
        if not self.ended.done():
            if error is None:
                self.ended.set_result(None)
            else:
                self.ended.set_exception(error)

    def send(self, pieces):
        """Frames leave at the end of this turn of the loop, together with others. What is sent after the end is dropped."""
        if self._closed:
            return
        self._out += pieces
        if not self._flushing and not self._blocked:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def send_now(self, data):
        """The same, at once if there is room."""
        if self._closed:
            return
        self._out.append(data)
        if not self._blocked:
            self._flush()

    def tail(self, connection, request, data):
        """TAILs of bytes."""
        self.send(frames.tails(connection, request, data))

    def tail_file(self, connection, request, descriptor, offset, length):
        """TAIL of a file; the caller may close its descriptor. Raises OSError if there is no free one."""
        if self._closed:
            return
        self._rights.append(os.dup(descriptor))
        self.send([frames.tail_file(connection, request, offset, length)])

    async def close(self):
        """Sends what waits, and closes the channel."""
        while self._out:
            self._flush()
            if not self._blocked:
                break
            await self._drained()
        self.drop()

    def drop(self):
        """Closes the channel; what waits is lost."""
        if self._closed:
            return
        self._closed = True
        self._out.clear()
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        for descriptor in self._rights:
            os.close(descriptor)
        self._rights.clear()
        self._decoder.close()
        self._sock.close()

    async def _drained(self):
        if self._retry is not None:
            await asyncio.sleep(RETRY_S)
            self._unblock()
            return
        future = self._loop.create_future()
        self._loop.add_writer(self._sock, lambda: future.done() or future.set_result(None))
        await future
        self._unblock()

    def _readable(self):
        try:
            more = receive_message(self._sock, self._decoder)
            while not self.ended.done() and (entry := self._decoder.next()) is not None:
                self._on_entry(entry)
        except BlockingIOError:
            return
        except frames.ProtocolError as error:
            self.end(error)
            return
        if not more:
            self.end()

    def _flush(self):
        self._flushing = False
        while self._out:
            data, rights = b"".join(self._out), self._rights[:_RIGHTS_AT_ONCE]
            # A descriptor may leave before its frame, but not after the frame's first byte.
            if len(self._rights) > len(rights):
                data, self._out = data[:1], [data[:1], data[1:]]
            else:
                self._out = [data]
            try:
                sent = send_message(self._sock, data, rights)
            except BlockingIOError:
                self._blocked = True
                self._loop.add_writer(self._sock, self._unblock)
                return
            except OSError as error:
                if will_take_descriptors(error, self._sock, 0):
                    self._blocked = True
                    self._retry = self._loop.call_later(RETRY_S, self._unblock)
                    return
                # Maitred is gone; the reader says so.
                sent, rights = sum(map(len, self._out)), self._rights
                self._out = []
            del self._rights[: len(rights)]
            for descriptor in rights:
                os.close(descriptor)
            if self._out:
                rest = b"".join(self._out)[sent:]
                self._out = [rest] if rest else []

    def _unblock(self):
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._loop.remove_writer(self._sock)
        self._blocked = False
        self._flush()
