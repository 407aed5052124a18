"""Heads of responses whose bodies take their time. A browser's EventSource and clients of MCP wait for the head of a stream before
they go on, and its first event may be minutes away.

A head that is written by itself costs a system call, and mostly its body comes at once. So there is one timer for all heads that
wait, and none when nothing does.
"""

import asyncio

# A head has waited for its body for one to two of these when it is written.
_LOOK_S = 0.01


class LateHeads:
    """Exchanges that have said their head and nothing of their body."""

    def __init__(self):
        self._new, self._seen = set(), set()
        self._timer = None

    def add(self, exchange):
        """Its `send_head` is called unless it is taken out until then."""
        self._new.add(exchange)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def discard(self, exchange):
        """Its body has begun, or it is over."""
        self._new.discard(exchange)
        self._seen.discard(exchange)

    def _look(self):
        late, self._seen, self._new = self._seen, self._new, set()
        waits = bool(self._seen)
        self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look) if waits else None
        for exchange in late:
            exchange.send_head()
