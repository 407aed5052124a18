"""Members of rooms, by Socket.IO's own protocol: long polling, WebSocket, and the change from one to the other."""

import queue

import requests
import socketio

from kit import step


def _member(user, transports):
    session = requests.Session()
    session.verify = user.authority
    session.trust_env = False
    client = socketio.Client(http_session=session, reconnection=False)
    heard = queue.Queue()
    client.on("said", heard.put)
    client.connect(user.base, transports=transports, wait_timeout=30)
    user.note("room", client.call("join", "one", timeout=30))
    return client, heard


def _talk(user, *transports):
    first, heard_first = _member(user, list(transports))
    second, heard_second = _member(user, list(transports))
    for text in ("hello é", {"a": [1, None]}, b"\x00\xff"):
        first.emit("say", ("one", text))
        user.note("both hear", (heard_first.get(timeout=30), heard_second.get(timeout=30)))
    user.note("1 MB", first.call("length", "x" * 1_000_000, timeout=30))
    user.reload()
    second.emit("say", ("one", "after the reload"))
    user.note("both hear after the reload", (heard_first.get(timeout=30), heard_second.get(timeout=30)))
    user.note("transport", first.transport())
    first.disconnect()
    second.disconnect()


@step
def websocket(user):
    """Socket.IO by WebSocket: rooms, acknowledgements, bytes, 1 MB, across a reload"""
    _talk(user, "websocket")


@step
def polling(user):
    """Socket.IO by long polling, the same"""
    _talk(user, "polling")


@step
def change(user):
    """Socket.IO that begins with polling and changes to WebSocket, the same"""
    _talk(user, "polling", "websocket")


@step
def beside(user):
    """another WebSocket server on the same http.Server, for longer than Socket.IO waits before it destroys what is not its own"""
    with user.websocket("/echo") as socket:
        socket.send("hello")
        user.note("echo", socket.recv(30))
        # Two pings of Socket.IO's take longer than the second after which it looks.
        client, heard = _member(user, ["websocket"])
        user.until("two seconds of Socket.IO", lambda: _pings(client) >= 2)
        client.disconnect()
        socket.send("still there?")
        user.note("echo after that", socket.recv(30))
    user.see("a page", user.get("/page?x=1"))


def _pings(client):
    """How often the server has asked whether this client is there."""
    if not hasattr(client, "pings"):
        client.pings = 0
        told = client.eio._receive_packet

        def receive(packet):
            client.pings += packet.packet_type == 2
            told(packet)

        client.eio._receive_packet = receive
    return client.pings
