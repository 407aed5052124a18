"""The connections of one channel: their descriptors, and the order of their requests."""

import os
from collections import deque

from .channel import close_all
from .frames import FORGET, REQUEST, ProtocolError


class Connections:
    """`begin(entry, descriptor)` is called with each request that is next on its connection, `skip(connection, request)` with one
    that was cancelled before, `fail(error)` when what has waited breaks the protocol. A channel with threads calls all of it
    with a lock."""

    def __init__(self, begin, skip, fail):
        self._begin = begin
        self._skip = skip
        self._fail = fail
        self._descriptors = {}
        # For each connection with a request under way: what came for it since.
        self._waiting = {}
        # The request that is under way for each of them, and the descriptors of those whose connection was forgotten meanwhile:
        # by then its number may be another connection's, which does not wait for the old request.
        self._current = {}
        self._parted = {}

    def take(self, entry):
        """A REQUEST or FORGET. Raises ProtocolError."""
        kind, connection = entry[:2]
        if kind == FORGET and connection in self._waiting and not self._waiting[connection]:
            self._part(connection)
        elif connection in self._waiting:
            # Responses of one connection keep their order, and its descriptor stays until they are out.
            self._waiting[connection].append(entry)
        elif kind == FORGET:
            self._forget(connection)
        else:
            self._start(entry)

    def cancel(self, connection, request):
        """Cancels a request that may wait here."""
        waiting = self._waiting.get(connection, ())
        for at, entry in enumerate(waiting):
            if entry[:3] == (REQUEST, connection, request):
                if entry[8] is not None:
                    os.close(entry[8])
                waiting[at] = (*entry[:5], None, None, None, None)

    def detach(self, connection, request):
        """The descriptor of a request under way, which is the caller's from now on; None if it has none."""
        if (connection, request) in self._parted:
            return self._parted.pop((connection, request))
        return self._descriptors.pop(connection, None)

    def release(self, connection, request, keep=True):
        """The connection's request is over: what came for it since is next. Comes again for one that was detached, and then does
        nothing. Without `keep`, the descriptor is closed."""
        if self._current.get(connection) != request:
            # It was forgotten: the number is free, or another connection's.
            _close(self._parted.pop((connection, request), None))
            return
        del self._current[connection]
        waiting = self._waiting.pop(connection)
        if not keep:
            self._forget(connection)
        while waiting and connection not in self._waiting:
            entry = waiting.popleft()
            if entry[0] == FORGET:
                self._forget(connection)
                continue
            try:
                self._start(entry)
            except ProtocolError as error:
                self._fail(error)
        if waiting:
            self._waiting[connection].extend(waiting)

    def drop_waiting(self):
        """What has not begun never will."""
        for waiting in self._waiting.values():
            for entry in waiting:
                close_all(entry)
            waiting.clear()

    def close_idle(self):
        """Closes the descriptors of connections without a request under way."""
        for connection in set(self._descriptors) - set(self._waiting):
            self._forget(connection)

    def close(self):
        """Closes all descriptors."""
        for descriptor in [*self._descriptors.values(), *self._parted.values()]:
            _close(descriptor)
        self._descriptors.clear()
        self._parted.clear()

    def _part(self, connection):
        """The connection is forgotten while its last request is under way."""
        del self._waiting[connection]
        self._parted[connection, self._current.pop(connection)] = self._descriptors.pop(connection, None)

    def _forget(self, connection):
        _close(self._descriptors.pop(connection, None))

    def _start(self, entry):
        """Begins with a request; does nothing more with one that was cancelled while it waited."""
        _, connection, request, _, passed, _, head, _, _ = entry
        if passed is not None:
            self._forget(connection)
            self._descriptors[connection] = passed
        if head is None:
            self._skip(connection, request)
            return
        descriptor = self._descriptors.get(connection)
        if descriptor is None:
            raise ProtocolError(f"a REQUEST for connection {connection}, whose descriptor never came")
        self._waiting[connection] = deque()
        self._current[connection] = request
        self._begin(entry, descriptor)


def _close(descriptor):
    if descriptor is not None:
        os.close(descriptor)
