"""The client's side of RFC 6455, as far as the cases need it."""

import struct

from kit import expect

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
_MASK = b"\x01\x20\x03\x40"


def encode(opcode, payload, final=True):
    """One masked frame."""
    head = bytes([opcode | (0x80 if final else 0)])
    if len(payload) < 126:
        head += bytes([0x80 | len(payload)])
    elif len(payload) < 65536:
        head += b"\xfe" + struct.pack(">H", len(payload))
    else:
        head += b"\xff" + struct.pack(">Q", len(payload))
    repeated = (_MASK * (len(payload) // 4 + 1))[: len(payload)]
    return head + _MASK + bytes(a ^ b for a, b in zip(payload, repeated))


class Client:
    """Speaks with a worker that has taken the connection over; `answer` is the response to the upgrade."""

    def __init__(self, client):
        self.client = client
        self.answer = client.answer(head_only=True)

    def send(self, opcode, payload):
        """One message in one frame."""
        self.write(encode(opcode, payload))

    def write(self, data):
        """Any bytes."""
        self.client.near.sendall(data)

    def receive(self):
        """One frame, which must be final and not masked: opcode and payload."""
        first, second = self.client.read_exactly(2)
        expect(first & 0xF0 == 0x80, f"a frame that begins with {first:#x}")
        expect(not second & 0x80, "a masked frame from the server")
        length = second
        if length == 126:
            length = struct.unpack(">H", self.client.read_exactly(2))[0]
        elif length == 127:
            length = struct.unpack(">Q", self.client.read_exactly(8))[0]
        return first & 0x0F, self.client.read_exactly(length)
