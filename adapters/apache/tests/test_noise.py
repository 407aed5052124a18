"""Frames with mistakes in them: whatever comes over a channel, no process of Apache's dies, and the next channel works."""

import random
import select
import tempfile
import unittest

import server
from conformance import MPMS
from server import kit

ROUNDS = 400
SEED = 5


def frames():
    """Good frames of every kind, each with the descriptors that it takes along."""
    fields = [("cookie", "a=1"), ("x-a", "b"), ("cookie", "c=2")]
    return [
        (kit.request_frame(1, 1, "/bytes/10", fields=fields, descriptors=1), 1),
        (kit.request_frame(1, 2, "/bytes/10", method="POST", body=b"body", descriptors=1), 1),
        (kit.request_frame(1, 3, "/chunks/2/5", body_file=4, descriptors=1), 2),
        (kit.request_frame(1, 4, "/hop", flags=kit.KEEP | kit.MAY_DETACH, early=b"early", descriptors=1), 1),
        (kit.request_frame(1, 5, "/request-trailers", method="POST", body=b"body", trailers=fields, descriptors=1), 1),
        (kit.trailers_frame(1, 6, fields), 0),
        (kit.frame(kit.FORGET, connection=1), 0),
        (kit.frame(kit.PING, request=9), 0),
        (kit.frame(kit.CANCEL, connection=1, request=2), 0),
        (kit.frame(60, b"skip", kit.OPTIONAL, 1), 1),
    ]


def spoil(choose, data):
    """One to three bytes changed, removed, doubled, or the end removed."""
    data = bytearray(data)
    for _ in range(choose.randrange(1, 4)):
        at = choose.randrange(len(data))
        how = choose.randrange(5)
        if how == 0:
            data[at] = choose.randrange(256)
        elif how == 1:
            data[at] ^= 1 << choose.randrange(8)
        elif how == 2 and len(data) > 1:
            del data[at]
        elif how == 3:
            data[at:at] = data[at : at + choose.randrange(1, 40)]
        elif at > 0:
            del data[at:]
    return bytes(data)


class Noise(unittest.TestCase):
    def test_no_process_dies_of_what_comes(self):
        why = server.missing()
        if why is not None:
            raise unittest.SkipTest(why)
        choose = random.Random(SEED)
        with server.Apache("worker", MPMS["worker"] + server.REFERENCE) as apache:
            before = apache.children()
            for number in range(ROUNDS):
                with self.subTest(seed=SEED, number=number):
                    self.one(apache, choose)
            with kit.Connected(apache.path, str(apache.log)) as channel:
                channel.welcome()
                self.assertEqual(channel.ask("/bytes/3")[0].body, b"xxx")
            self.assertEqual(apache.children(), before, apache.log.read_text()[-2000:])

    def one(self, apache, choose):
        with kit.Connected(apache.path, str(apache.log)) as channel, tempfile.TemporaryFile() as body:
            body.write(b"body")
            body.flush()
            if choose.randrange(10):
                channel.welcome()
            client = channel.client()
            data, count = choose.choice(frames())
            descriptors = [client.far.fileno(), body.fileno()][: count if choose.randrange(8) else choose.randrange(3)]
            try:
                channel.send(spoil(choose, data) + kit.frame(kit.SHUTDOWN), descriptors)
                channel.sock.shutdown(1)
                # The end has to come; a reset is one, if the rest of what was sent is not read.
                while select.select([channel.sock], [], [], kit.DEADLINE_S)[0]:
                    if not channel.sock.recv(65536):
                        return
            except (ConnectionResetError, BrokenPipeError):
                return
            self.fail("the channel stays open")


class Addresses(unittest.TestCase):
    def test_a_client_without_a_port_is_one_and_what_is_no_address_ends_the_channel(self):
        why = server.missing()
        if why is not None:
            raise unittest.SkipTest(why)
        with server.Apache("worker", MPMS["worker"] + server.REFERENCE) as apache:
            with kit.Connected(apache.path, str(apache.log)) as channel:
                channel.welcome()
                for address in ("192.0.2.7:0", "[::1]:65535"):
                    meta = f"remote={address}\nlocal=192.0.2.1:80\nscheme=http\n"
                    self.assertEqual(channel.ask("/bytes/3", meta=meta)[0].body, b"xxx", address)
            for address in ("", ":1", "192.0.2.7", "192.0.2.7:", "192.0.2.7:65536", "192.0.2.7:1x", "[::1]", "[:1", "]:1", "name:1"):
                with self.subTest(address), kit.Connected(apache.path, str(apache.log)) as channel:
                    channel.welcome()
                    client = channel.client()
                    meta = f"remote={address}\nlocal=192.0.2.1:80\nscheme=http\n"
                    channel.send(kit.request_frame(7, 1, "/bytes/3", meta=meta, descriptors=1), [client.far.fileno()])
                    self.assertTrue(channel.at_end())


if __name__ == "__main__":
    unittest.main()
