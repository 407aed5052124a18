"""What is kept for clients that read more slowly than a handler writes."""

import contextlib
import os
import signal
import unittest

import server
from server import kit
from test_life import ONE_PROCESS

SPOOL_BYTES_MAX = 64 * 1024 * 1024
CHUNKS, CHUNK_BYTES = 800, 500_000


def setUpModule():
    why = server.missing()
    if why is not None:
        raise unittest.SkipTest(why)


def spool_of(pid):
    """A process's only file in memory that holds a response; None if there is none."""
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(path).startswith("/memfd:maitred-tail"):
                return path
    return None


class Spool(unittest.TestCase):
    def test_what_a_client_has_taken_does_not_stay_in_memory(self):
        """The client has taken a part of what is kept while the handler still writes."""
        with server.Apache("prefork", ONE_PROCESS + server.REFERENCE) as apache:
            [pid] = apache.children()
            with kit.Connected(apache.path, str(apache.log)) as channel:
                channel.welcome()
                client = channel.client()
                target = f"/chunks/{CHUNKS}/{CHUNK_BYTES}"
                channel.send(kit.request_frame(1, 1, target, descriptors=1), [client.far.fileno()])
                apache.wait_for(lambda: spool_of(pid) is not None, "something to be kept")
                spool = os.open(spool_of(pid), os.O_RDONLY)
                self.addCleanup(os.close, spool)

                def kept():
                    return os.fstat(spool).st_size

                apache.wait_for(lambda: kept() > 1 << 20, "more to be kept")
                os.kill(pid, signal.SIGSTOP)
                try:
                    client.read_exactly(1 << 20)
                finally:
                    os.kill(pid, signal.SIGCONT)
                # The rest of it the client takes only when the handler waits for it, or is about to.
                apache.wait_for(lambda: kept() > SPOOL_BYTES_MAX * 9 // 10, "the handler to come to the limit")
                largest, got = 0, 0
                while got < SPOOL_BYTES_MAX:
                    largest = max(largest, kept())
                    got += len(client.near.recv(65536))
        self.assertLessEqual(largest, SPOOL_BYTES_MAX)


if __name__ == "__main__":
    unittest.main()
