"""QPACK against pylsqpack, an implementation that others wrote (ls-qpack, in C): each decodes what the other has encoded.

    qpack_beside_pylsqpack.py EXAMPLE

EXAMPLE is `examples/qpack` of this crate, at the other end of a pipe. Lists of fields come from a fixed seed.
"""

import itertools
import random
import subprocess
import sys
import unittest

import pylsqpack

EXAMPLE = None
SEED = 9204
LISTS = 400
NAMES = [b":method", b":path", b":authority", b":scheme", b":status", b"accept", b"accept-encoding", b"cookie", b"set-cookie", b"user-agent",
         b"content-type", b"x-request-id", b"authorization", b"if-none-match", b"cache-control", b"x" * 300]
VALUES = [b"", b"GET", b"/", b"https", b"200", b"gzip, deflate, br", b"example.test", b"no-cache", b"text/html; charset=utf-8", b"a" * 200]


def lists(seed):
    """Lists of fields in which names and values come back, and others do not."""
    chance = random.Random(seed)
    for _ in range(LISTS):
        fields = []
        for _ in range(chance.randint(1, 20)):
            name = chance.choice(NAMES) if chance.random() < 0.9 else b"x-%d" % chance.randint(0, 99)
            value = chance.choice(VALUES) if chance.random() < 0.7 else chance.randbytes(chance.randint(0, 40)).hex().encode()
            fields.append((name, value))
        yield fields


class Peer:
    """The example, as a context."""

    def __init__(self, table_bytes, blocked):
        words = [EXAMPLE, str(table_bytes), str(blocked)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        status = self.process.wait()
        self.process.stdout.close()
        assert status == 0, f"the example ended with {status}"

    def ask(self, *words):
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().rstrip("\n")
        assert answer, "the example has ended"
        return answer.split(" ")


def fields_of(answer):
    assert answer[0] == "fields", answer
    return bytes.fromhex(answer[1]), [tuple(bytes.fromhex(part) for part in field.split(":")) for field in answer[2:]]


class Sections(unittest.TestCase):
    def test_ours_are_decoded_by_theirs(self):
        theirs = pylsqpack.Decoder(0, 0)
        with Peer(0, 0) as ours:
            for stream, fields in zip(itertools.count(0, 4), lists(SEED)):
                kind, section = ours.ask("encode", *(f"{name.hex()}:{value.hex()}" for name, value in fields))
                self.assertEqual(kind, "ok")
                told, decoded = theirs.feed_header(stream, bytes.fromhex(section))
                self.assertEqual((told, decoded), (b"", fields))

    def decode(self, table_bytes, blocked, late):
        """Theirs are decoded by ours; what is for the encoder stream comes late for `late` sections of 10. Gives how many were
        blocked."""
        chance, waiting, held, blocks = random.Random(SEED), {}, b"", 0
        theirs = pylsqpack.Encoder()
        with Peer(table_bytes, blocked) as ours:
            def take(instructions):
                if instructions:
                    kind, told = ours.ask("encoder", instructions.hex())
                    self.assertEqual(kind, "ok")
                    theirs.feed_decoder(bytes.fromhex(told))
                for stream, (section, wanted) in list(waiting.items()):
                    told, decoded = fields_of(ours.ask("section", str(stream), section))
                    self.assertEqual(decoded, wanted)
                    theirs.feed_decoder(told)
                    del waiting[stream]

            take(theirs.apply_settings(table_bytes, blocked))
            for stream, fields in zip(itertools.count(0, 4), lists(SEED)):
                instructions, section = theirs.encode(stream, fields)
                if chance.randint(1, 10) > late:
                    take(held + instructions)
                    held = b""
                else:
                    held += instructions
                answer = ours.ask("section", str(stream), section.hex())
                if answer == ["blocked"]:
                    blocks += 1
                    waiting[stream] = (section.hex(), fields)
                    continue
                told, decoded = fields_of(answer)
                self.assertEqual(decoded, fields)
                if told:
                    theirs.feed_decoder(told)
            take(held)
            self.assertEqual(waiting, {})
        return blocks

    def test_theirs_are_decoded_by_ours_without_a_table(self):
        self.assertEqual(self.decode(0, 0, 0), 0)

    def test_theirs_are_decoded_by_ours_with_tables(self):
        for table_bytes in (64, 512, 4096, 65536):
            self.assertEqual(self.decode(table_bytes, 0, 0), 0)

    def test_theirs_are_decoded_by_ours_while_instructions_are_late(self):
        for table_bytes in (512, 4096):
            self.assertGreater(self.decode(table_bytes, 100, 7), 10)


if __name__ == "__main__":
    EXAMPLE = sys.argv.pop()
    unittest.main()
