"""The cases of applications with a WebSocket at /ws (RFC 6455)."""

import base64
import os
import struct

from cases import case, request
from client import Connection, expect, observed

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
_MASK = b"\x01\x20\x03\x40"


def frame(opcode, payload):
    """One final, masked frame."""
    if len(payload) < 126:
        head = bytes((0x80 | opcode, 0x80 | len(payload)))
    elif len(payload) < 65536:
        head = struct.pack(">BBH", 0x80 | opcode, 0xFE, len(payload))
    else:
        head = struct.pack(">BBQ", 0x80 | opcode, 0xFF, len(payload))
    repeated = (_MASK * (len(payload) // 4 + 1))[: len(payload)]
    masked = int.from_bytes(payload, "little") ^ int.from_bytes(repeated, "little")
    return head + _MASK + masked.to_bytes(len(payload), "little")


def upgrade(address, fields=(), target="/ws"):
    """A connection and the response to its upgrade. The key is another one each time, so its answer is not compared."""
    connection = Connection(address)
    key = base64.b64encode(os.urandom(16)).decode()
    head = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", key)]
    connection.send(request("GET", target, [*head, *fields]))
    response = connection.response()
    response.fields = [pair for pair in response.fields if pair[0] != "sec-websocket-accept"]
    return connection, response


def receive(connection):
    """One message: opcode and payload, joined if it comes in fragments. Pings of the server are passed over."""
    pieces, opcode = [], None
    while True:
        first, second = connection.exactly(2)
        length = second & 0x7F
        expect(not second & 0x80, "a masked frame from the server")
        if length >= 126:
            length = int.from_bytes(connection.exactly(2 if length == 126 else 8), "big")
        payload = connection.exactly(length)
        if first & 0x0F == PING:
            continue
        if first & 0x0F >= CLOSE:
            return first & 0x0F, payload
        opcode = opcode or first & 0x0F
        pieces.append(payload)
        if first & 0x80:
            return opcode, b"".join(pieces)


@case("WebSocket: messages", "websocket")
def _messages(address):
    connection, response = upgrade(address)
    found = [observed(response)]
    with connection:
        expect(response.status == 101, f"the upgrade is answered {response.status}")
        for opcode, payload in ((TEXT, "grüezi".encode()), (BINARY, bytes(range(256)) * 400), (TEXT, b"")):
            connection.send(frame(opcode, payload))
            expect(receive(connection) == (opcode, payload), "another message comes back")
        connection.send(frame(PING, b"there?"))
        expect(receive(connection) == (PONG, b"there?"), "no pong")
    return found


@case("WebSocket: close by the client", "websocket")
def _close(address):
    connection, response = upgrade(address)
    with connection:
        expect(response.status == 101, f"the upgrade is answered {response.status}")
        connection.send(frame(CLOSE, struct.pack(">H", 1000)))
        opcode, payload = receive(connection)
        expect(opcode == CLOSE, f"opcode {opcode} in place of CLOSE")
        expect(connection.at_end(), "the connection stays open")
        return [{"close": payload.hex()}]


@case("WebSocket: subprotocol", "websocket")
def _subprotocol(address):
    connection, response = upgrade(address, [("Sec-WebSocket-Protocol", "other, echo")])
    connection.socket.close()
    expect(response.one("sec-websocket-protocol") == "echo", "the subprotocol is not echo")
    return [observed(response)]


@case("WebSocket: refused", "websocket")
def _refused(address):
    connection, response = upgrade(address, target="/ws-refused")
    connection.socket.close()
    expect(response.status == 403, f"answered {response.status}")
    return [observed(response)]
