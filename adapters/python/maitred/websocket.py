"""RFC 6455 on the server's side: bytes in, messages out, and the reverse. No I/O, no extensions."""

import base64
import hashlib
import struct

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTROL_BYTES_MAX = 125
_CODES = frozenset((1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014))


class Violation(Exception):
    """The peer broke the protocol; `code` is what CLOSE says."""

    def __init__(self, code, reason):
        super().__init__(reason)
        self.code = code


def accept_key(key):
    """Sec-WebSocket-Accept for a Sec-WebSocket-Key (4.2.2)."""
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())


def encode(opcode, payload):
    """One final frame, without a mask."""
    length = len(payload)
    if length < 126:
        head = bytes((0x80 | opcode, length))
    elif length < 65536:
        head = struct.pack(">BBH", 0x80 | opcode, 126, length)
    else:
        head = struct.pack(">BBQ", 0x80 | opcode, 127, length)
    return head + payload


def encode_close(code, reason=""):
    """CLOSE; the reason is cut at what fits."""
    reason = reason.encode()[: _CONTROL_BYTES_MAX - 2].decode(errors="ignore").encode()
    return encode(CLOSE, struct.pack(">H", code) + reason)


class Parser:
    """What the client sends."""

    def __init__(self, message_bytes_max):
        self._message_bytes_max = message_bytes_max
        self._data = bytearray()
        self._opcode = None
        self._pieces = []
        self._message_bytes = 0

    def feed(self, data):
        """Yields ``(TEXT, str)``, ``(BINARY, bytes)``, ``(PING, bytes)``, ``(PONG, bytes)`` and ``(CLOSE, (code, reason))``.

        Raises Violation; nothing can be read after that, nor after CLOSE.
        """
        self._data += data
        while (found := self._frame()) is not None:
            final, opcode, payload = found
            if opcode == CLOSE:
                yield CLOSE, _close(payload)
            elif opcode >= CLOSE:
                yield opcode, payload
            else:
                message = self._fragment(final, opcode, payload)
                if message is not None:
                    yield message

    def _frame(self):
        """The next frame: final, opcode, payload. None if it is not complete."""
        data = self._data
        if len(data) < 2:
            return None
        final, opcode, length = data[0] & 0x80, data[0] & 0x0F, data[1] & 0x7F
        self._check(data[0], opcode, data[1], length)
        at = 2
        if length >= 126:
            size, least = (2, 126) if length == 126 else (8, 65536)
            at += size
            if len(data) < at:
                return None
            length = int.from_bytes(data[2:at], "big")
            if not least <= length < 1 << 63:
                raise Violation(1002, "a length that is not in its shortest form")
        if opcode < CLOSE and self._message_bytes + length > self._message_bytes_max:
            raise Violation(1009, f"a message of more than {self._message_bytes_max} bytes")
        end = at + 4 + length
        if len(data) < end:
            return None
        payload = _unmask(bytes(data[at + 4 : end]), bytes(data[at : at + 4]))
        del data[:end]
        return final, opcode, payload

    def _check(self, first, opcode, second, length):
        """The first two bytes of a frame."""
        if first & 0x70:
            raise Violation(1002, "reserved bits are set")
        if opcode not in (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG):
            raise Violation(1002, f"opcode {opcode}")
        if not second & 0x80:
            raise Violation(1002, "a frame without a mask")
        if opcode >= CLOSE and (length > _CONTROL_BYTES_MAX or not first & 0x80):
            raise Violation(1002, "a control frame that is too long or in fragments")
        if opcode < CLOSE and (opcode == CONTINUATION) != (self._opcode is not None):
            raise Violation(1002, "fragments out of order")

    def _fragment(self, final, opcode, payload):
        """Adds to the message; returns it when it is complete."""
        if opcode != CONTINUATION:
            self._opcode = opcode
        self._pieces.append(payload)
        self._message_bytes += len(payload)
        if not final:
            return None
        opcode, message = self._opcode, b"".join(self._pieces)
        self._opcode, self._message_bytes = None, 0
        self._pieces.clear()
        if opcode == BINARY:
            return BINARY, message
        try:
            return TEXT, message.decode()
        except UnicodeDecodeError as error:
            raise Violation(1007, "text that is not UTF-8") from error


def _unmask(payload, mask):
    """XOR with the repeated mask: as one large number, which is fast."""
    length = len(payload)
    repeated = (mask * (length // 4 + 1))[:length]
    return (int.from_bytes(payload, "little") ^ int.from_bytes(repeated, "little")).to_bytes(length, "little")


def _close(payload):
    """Code and reason; 1005 if there is none."""
    if not payload:
        return 1005, ""
    if len(payload) == 1:
        raise Violation(1002, "half a code in CLOSE")
    code = int.from_bytes(payload[:2], "big")
    if code not in _CODES and not 3000 <= code <= 4999:
        raise Violation(1002, f"code {code} in CLOSE")
    try:
        return code, payload[2:].decode()
    except UnicodeDecodeError as error:
        raise Violation(1007, "a reason that is not UTF-8") from error
