"""Members of rooms, by Socket.IO's own protocol: long polling, WebSocket, and the change from one to the other.

The client is the asynchronous one. The one with threads reads and writes one socket of TLS in two threads, which OpenSSL does not
allow: one connection in a thousand seemed to have ended at once (python-engineio's issue 461; the same with Node.js alone).
It also hands the two parts of a message with bytes to two threads, the second of which may be the first to run.
"""

import asyncio

import aiohttp
import socketio

from kit import step
from kit.client import SILENCE_S, context


class _Member:
    """A member of the room "one"."""

    def __init__(self, user, transports):
        self._user, self._transports = user, list(transports)
        self._heard = asyncio.Queue()
        self.pings = 0

    async def __aenter__(self):
        tls = {"ssl": context(self._user.authority)} if self._user.base.startswith("https") else {}
        self._http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(**tls))
        self.client = socketio.AsyncClient(http_session=self._http, reconnection=False)
        self.client.on("said", self._heard.put_nowait)
        self._count_pings()
        await self.client.connect(self._user.base, transports=self._transports, wait_timeout=SILENCE_S)
        self._user.note("room", await self.call("join", "one"))
        return self

    async def __aexit__(self, *_):
        await self.client.disconnect()
        await self._http.close()

    def _count_pings(self):
        """How often the server asks whether this client is there."""
        told = self.client.eio._receive_packet

        async def receive(packet):
            self.pings += packet.packet_type == 2
            await told(packet)

        self.client.eio._receive_packet = receive

    async def call(self, *words):
        """An event, and its acknowledgement."""
        return await self.client.call(*words, timeout=SILENCE_S)

    async def say(self, what):
        """To all members of the room."""
        await self.client.emit("say", ("one", what))

    async def hear(self):
        """What a member has said."""
        return await asyncio.wait_for(self._heard.get(), SILENCE_S)


async def _talk(user, *transports):
    async with _Member(user, transports) as first, _Member(user, transports) as second:
        for text in ("hello é", {"a": [1, None]}, b"\x00\xff"):
            await first.say(text)
            user.note("both hear", (await first.hear(), await second.hear()))
        user.note("1 MB", await first.call("length", "x" * 1_000_000))
        # Both go on to answer the server's pings.
        await asyncio.to_thread(user.reload)
        await second.say("after the reload")
        user.note("both hear after the reload", (await first.hear(), await second.hear()))
        user.note("transport", first.client.transport())


@step
def websocket(user):
    """Socket.IO by WebSocket: rooms, acknowledgements, bytes, 1 MB, across a reload"""
    asyncio.run(_talk(user, "websocket"))


@step
def polling(user):
    """Socket.IO by long polling, the same"""
    asyncio.run(_talk(user, "polling"))


@step
def change(user):
    """Socket.IO that begins with polling and changes to WebSocket, the same"""
    asyncio.run(_talk(user, "polling", "websocket"))


@step
def beside(user):
    """another WebSocket server on the same http.Server, for longer than Socket.IO waits before it destroys what is not its own"""
    with user.websocket("/echo") as socket:
        socket.send("hello")
        user.note("echo", socket.recv(SILENCE_S))
        # Two pings of Socket.IO's take longer than the second after which it looks.
        asyncio.run(_two_pings(user))
        socket.send("still there?")
        user.note("echo after that", socket.recv(SILENCE_S))
    user.see("a page", user.get("/page?x=1"))


async def _two_pings(user):
    async with _Member(user, ["websocket"]) as member:
        await asyncio.to_thread(user.until, "two pings of Socket.IO", lambda: member.pings >= 2)
