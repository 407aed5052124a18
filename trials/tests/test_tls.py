"""A client may read and write in two threads, over TLS as well."""

import asyncio
import socket
import ssl
import sys
import tempfile
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kit.servers import certificate  # noqa: E402
from kit.tls import plain_end  # noqa: E402

_PATIENCE_S = 60
_BYTES = 4_000_000


class Server(threading.Thread):
    """Sends back what it is sent, and ends when it has read "end"."""

    def __init__(self, files):
        super().__init__(daemon=True)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*files)
        self.port = None
        self.listens = threading.Event()

    def run(self):
        """As long as the program runs."""
        asyncio.run(self._serve())

    async def _serve(self):
        server = await asyncio.start_server(self._echo, "127.0.0.1", 0, ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        self.listens.set()
        await server.serve_forever()

    async def _echo(self, reader, writer):
        while (data := await reader.read(1000)) not in (b"", b"end"):
            writer.write(data)
            await writer.drain()
        writer.close()


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls._directory.cleanup)
        files = certificate(Path(cls._directory.name))
        cls._trust = ssl.create_default_context(cafile=str(files[0]))
        cls._server = Server(files)
        cls._server.start()
        assert cls._server.listens.wait(_PATIENCE_S)

    def _connect(self, trust=None):
        end = plain_end("127.0.0.1", self._server.port, trust or self._trust, _PATIENCE_S)
        self.addCleanup(end.close)
        end.settimeout(_PATIENCE_S)
        return end

    def test_both_ways_at_once_and_the_end(self):
        end = self._connect()
        data = bytes(range(256)) * (_BYTES // 256)
        writer = threading.Thread(target=end.sendall, args=(data,))
        writer.start()
        found = b""
        while len(found) < len(data):
            piece = end.recv(100_000)
            self.assertNotEqual(piece, b"", "it ends too early")
            found += piece
        writer.join()
        self.assertEqual(found, data)
        end.sendall(b"end")
        self.assertEqual(end.recv(1), b"")

    def test_who_cannot_connect_is_told(self):
        with self.assertRaises(ssl.SSLCertVerificationError):
            self._connect(ssl.create_default_context())
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            with self.assertRaises(ConnectionRefusedError):
                plain_end("127.0.0.1", closed.getsockname()[1], self._trust, _PATIENCE_S)


if __name__ == "__main__":
    unittest.main()
