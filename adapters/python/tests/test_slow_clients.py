"""Streams for clients that read slowly, behind the real Maitred."""

import os
import socket
import unittest

from tests.behind import Behind, needs_maitred, read_until

SOURCE = """
import os

def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"] == "/pid":
        return [str(os.getpid()).encode()]
    # Without an end, as far as a client can tell.
    return (b"x" * 100_000 for _ in range(4000))
"""
POOL = """workers = 1
env = { MAITRED_SPOOL_MIB = "2" }"""


def kept(pid):
    """Bytes in files without a name that a process has open."""
    count = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found = os.stat(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue  # Closed meanwhile.
        count += found.st_size if found.st_nlink == 0 else 0
    return count


@needs_maitred
class StreamsWithoutAnEnd(unittest.TestCase):
    def check(self, transport):
        with Behind(SOURCE, "wsgi", transport, POOL) as app:
            pid = int(app.get("/pid")[2])
            with app.open("/stream") as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                read_until(sock, b"\r\n\r\n")
                app.until(lambda: "MAITRED_SPOOL_MIB" in app.log())
                self.assertLessEqual(kept(pid), 2 << 20)
            # The client is gone, and nothing is kept for it.
            self.assertEqual(int(app.get("/pid")[2]), pid)
            self.assertEqual(kept(pid), 0)

    def test_they_wait_for_their_clients(self):
        self.check("direct")

    def test_they_wait_behind_a_relay(self):
        self.check("relay")
