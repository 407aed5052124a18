"""channel.Channel with the compiled part in its place: the same methods, and `unusual`, which answers what is usual by itself."""

import os

from . import frames
from .native import library
from .recovery import Recoverable


class Channel(library.Channel, Recoverable):
    """What channel.Channel is."""

    def __init__(self, sock, capacity=1, name="python", recovery=None):
        super().__init__()
        self._capacity = capacity
        self._name = name
        # Where another channel comes from if this one is lost (recovery.Recovery).
        self._recovery = recovery
        self._leaving = False
        self._open(sock)

    def _open(self, sock):
        sock.setblocking(True)
        self._sock = sock
        self.open_wire(sock.fileno())

    def hello(self):
        """Tells Maitred that this process is ready."""
        self.send_now(frames.greeting(self._capacity, self._name, self._recovery is not None))

    def requests(self):
        """As that of channel.Channel."""
        return self.unusual(None, None)

    def unusual(self, application, build):
        """Answers the requests of a WSGI application; yields those that are out of the ordinary as `requests` does. `build` is an
        environ.EnvironBuilder. Raises ProtocolError."""
        wait = None if type(self)._wait is Channel._wait else self._wait
        while True:
            entry = self.run(application, build, wait)
            if entry is not None:
                yield entry
                if entry[7] is not None:
                    os.close(entry[7])
            elif not self._is_lost() or not self._recover():
                return

    def close(self):
        """Closes every descriptor that was received, and the channel."""
        self.close_wire()
        self._sock.close()

    def _wait(self):
        """Comes before each receive; where there is more to wait for than the channel, it may return late."""

    def _is_lost(self):
        """Whether the channel has ended in no orderly way, and there may be another."""
        return self.ended and self._recovery is not None and not self._leaving and not self.told
