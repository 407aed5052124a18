"""RFC 6455 without any connection."""

import os
import struct
import unittest

from maitred.websocket import (
    BINARY, CLOSE, PING, PONG, TEXT, Parser, Violation, accept_key, encode, encode_close,
)  # fmt: skip

MASK = b"\x11\x22\x33\x44"


def masked(opcode, payload, final=True, reserved=0):
    """A frame as a client sends it."""
    length = len(payload)
    head = bytes([(0x80 if final else 0) | reserved | opcode])
    if length < 126:
        head += bytes([0x80 | length])
    elif length < 65536:
        head += struct.pack(">BH", 0xFE, length)
    else:
        head += struct.pack(">BQ", 0xFF, length)
    return head + MASK + bytes(byte ^ MASK[at % 4] for at, byte in enumerate(payload))


class Reading(unittest.TestCase):
    def test_messages_of_all_sizes(self):
        for length in (0, 1, 125, 126, 127, 65535, 65536, 200_000):
            data = os.urandom(length)
            self.assertEqual(list(Parser(1 << 20).feed(masked(BINARY, data))), [(BINARY, data)])

    def test_any_split_gives_the_same(self):
        data = masked(TEXT, "grün".encode(), final=False) + masked(PING, b"p") + masked(0, b"!") + masked(BINARY, b"x" * 300)
        wanted = [(PING, b"p"), (TEXT, "grün!"), (BINARY, b"x" * 300)]
        for cut in range(len(data)):
            parser = Parser(1000)
            self.assertEqual([*parser.feed(data[:cut]), *parser.feed(data[cut:])], wanted)

    def test_a_character_may_be_split_among_fragments(self):
        text = "ü".encode()
        frames = masked(TEXT, text[:1], final=False) + masked(0, text[1:])
        self.assertEqual(list(Parser(10).feed(frames)), [(TEXT, "ü")])

    def test_closing(self):
        self.assertEqual(list(Parser(10).feed(masked(CLOSE, b""))), [(CLOSE, (1005, ""))])
        close = masked(CLOSE, struct.pack(">H", 4000) + b"bye")
        self.assertEqual(list(Parser(10).feed(close)), [(CLOSE, (4000, "bye"))])

    def test_violations_have_their_code(self):
        for data, code in (
            (b"\x81\x01x", 1002),
            (masked(3, b""), 1002),
            (masked(11, b""), 1002),
            (masked(TEXT, b"", reserved=0x40), 1002),
            (masked(0, b"x"), 1002),
            (masked(TEXT, b"x", final=False) + masked(TEXT, b"y"), 1002),
            (masked(PING, b"x" * 126), 1002),
            (masked(PING, b"", final=False), 1002),
            (b"\x82\xfe\x00\x7d", 1002),
            (b"\x82\xff" + (1 << 63).to_bytes(8, "big"), 1002),
            (masked(CLOSE, b"x"), 1002),
            (masked(CLOSE, struct.pack(">H", 1005)), 1002),
            (masked(CLOSE, struct.pack(">H", 2999)), 1002),
            (masked(CLOSE, struct.pack(">H", 1000) + b"\xff"), 1007),
            (masked(TEXT, b"\xc0\xaf"), 1007),
            (masked(BINARY, b"x" * 1001), 1009),
            (masked(BINARY, b"x" * 600, final=False) + masked(0, b"x" * 401), 1009),
            (b"\x82\xff" + (1 << 40).to_bytes(8, "big"), 1009),
        ):
            with self.subTest(data=data[:8], code=code), self.assertRaises(Violation) as raised:
                list(Parser(1000).feed(data))
            self.assertEqual(raised.exception.code, code)

    def test_the_limit_counts_one_message(self):
        frames = masked(BINARY, b"x" * 1000) * 3
        self.assertEqual(len(list(Parser(1000).feed(frames))), 3)


class Writing(unittest.TestCase):
    def test_lengths_are_in_their_shortest_form(self):
        for length, head in ((0, b"\x82\x00"), (125, b"\x82\x7d"), (126, b"\x82\x7e\0\x7e"), (65536, b"\x82\x7f" + b"\0" * 5 + b"\1\0\0")):
            frame = encode(BINARY, b"x" * length)
            self.assertEqual((frame[: len(head)], len(frame)), (head, len(head) + length))

    def test_a_reason_is_cut_at_a_character(self):
        frame = encode_close(1000, "ü" * 100)
        self.assertEqual(frame[1], 124)
        frame[4:].decode()

    def test_the_key_of_the_specification(self):
        self.assertEqual(accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="), b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")

    def test_a_pong_is_a_control_frame(self):
        self.assertEqual(encode(PONG, b"x"), b"\x8a\x01x")


if __name__ == "__main__":
    unittest.main()
