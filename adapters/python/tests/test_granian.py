"""One RSGI application, below Granian alone and behind Maitred: clients see the same."""

import http.client
import importlib.util
import socket
import struct
import unittest

from maitred.websocket import BINARY, CLOSE, TEXT
from tests.behind import Behind, needs_maitred
from tests.served import DEADLINE_S, Process, until
from tests.test_websocket import masked

APP = r'''
import asyncio, json
from granian.rsgi import ProtocolClosed, ProtocolError

FILE = __file__ + ".data"

class App:
    started = "no"

    def __rsgi_init__(self, loop):
        with open(FILE, "wb") as file:
            file.write(bytes(range(250)) * 2000)
        async def start():
            await asyncio.sleep(0)
            self.started = "yes"
        loop.run_until_complete(start())

    async def __rsgi__(self, scope, protocol):
        name = scope.path.split("/")[1]
        await getattr(self, name.replace("-", "_"), self.missing)(scope, protocol)

    async def missing(self, scope, protocol):
        protocol.response_str(404, [("content-type", "text/plain")], "missing")

    async def scope(self, scope, protocol):
        headers = scope.headers
        seen = {name: getattr(scope, name) for name in (
            "proto", "rsgi_version", "http_version", "scheme", "method", "path", "query_string", "authority",
        )}
        seen["items"] = sorted(pair for pair in headers.items() if pair[0].startswith("x-test"))
        seen["keys"] = sorted(name for name in headers.keys() if name.startswith("x-test"))
        seen["values"] = sorted(value for value in headers.values() if value.startswith("value"))
        seen["one"] = [headers["x-test-a"], headers.get("X-Test-A"), headers.get("x-none"), headers.get_all("x-test-a")]
        seen["in"] = ["x-test-a" in headers, "X-Test-A" in headers, "x-none" in headers, "x-test-a" in list(headers)]
        protocol.response_str(200, [("content-type", "application/json")], json.dumps(seen))

    async def started_(self, scope, protocol):
        protocol.response_str(200, [], self.started)

    async def echo(self, scope, protocol):
        protocol.response_bytes(200, [("x-test", "one"), ("x-test", "two"), ("x-text", "caf\xe9")], await protocol())

    async def pieces(self, scope, protocol):
        transport = protocol.response_stream(201, [("content-type", "application/octet-stream")])
        async for piece in protocol:
            await transport.send_bytes(piece)
        await transport.send_str("\xe9nd")

    async def empty(self, scope, protocol):
        protocol.response_empty(204, [])

    async def bare_stream(self, scope, protocol):
        protocol.response_stream(200, [])

    async def file(self, scope, protocol):
        protocol.response_file(200, [("content-type", "image/odd")], FILE)

    async def part(self, scope, protocol):
        protocol.response_file_range(206, [], FILE, 7, 400_000)

    async def behind(self, scope, protocol):
        protocol.response_file_range(206, [], FILE, 499_990, 600_000)

    async def no_file(self, scope, protocol):
        protocol.response_file(200, [], FILE + ".none")

    async def raises(self, scope, protocol):
        raise ValueError("asked for")

    async def silent(self, scope, protocol):
        pass

    async def wrong(self, scope, protocol):
        found = []
        for call in (
            lambda: protocol.response_str(200, [], b"x"),
            lambda: protocol.response_bytes(200, [], "x"),
            lambda: protocol.response_str("200", [], "x"),
            lambda: protocol.response_str(200, [("a", 1)], "x"),
            lambda: protocol.response_file_range(200, [], FILE, 5, 5),
        ):
            try:
                call()
            except (TypeError, ValueError) as error:
                found.append(type(error).__name__)
        await protocol()
        try:
            await protocol()
        except ProtocolError:
            found.append("ProtocolError")
        try:
            protocol.response_stream(200, [])
            protocol.response_stream(200, [])
        except ProtocolError:
            found.append("ProtocolError")
        self.found = found

    async def found_(self, scope, protocol):
        protocol.response_str(200, [], " ".join(self.found))

    async def ws(self, scope, protocol):
        transport = await protocol.accept()
        await transport.send_str(f"{scope.proto} {scope.method} {scope.scheme} {scope.http_version}")
        while (message := await transport.receive()).kind:
            await (transport.send_bytes if message.kind == 1 else transport.send_str)(message.data)
        try:
            await transport.receive()
        except ProtocolClosed:
            self.found = ["closed"]

    async def refused(self, scope, protocol):
        protocol.close(418)

    async def refused_plainly(self, scope, protocol):
        protocol.close()

app = App()
'''
# Method, target, body.
REQUESTS = (
    ("GET", "/scope/caf%C3%A9/a%20b?x=%20&y", None),
    ("POST", "/scope", b"x"),
    ("GET", "/started_", None),
    ("POST", "/echo", b"\0\xff body"),
    ("POST", "/echo", b"x" * 300_000),
    ("GET", "/echo", None),
    ("HEAD", "/echo", None),
    ("POST", "/pieces", b"y" * 300_000),
    ("GET", "/empty", None),
    ("GET", "/bare-stream", None),
    ("GET", "/file", None),
    ("GET", "/part", None),
    ("GET", "/behind", None),
    ("GET", "/wrong", None),
    ("GET", "/found_", None),
    ("GET", "/elsewhere", None),
)
# Of these only the status is the application's.
FAILURES = (("GET", "/raises", None), ("GET", "/silent", None), ("GET", "/no-file", None))
COMPARED = ("content-type", "x-test", "x-text")
HANDSHAKE = (
    "GET {target} HTTP/1.1\r\nHost: example.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
FRAMES = (
    (masked(TEXT, b"text"), b"\x81\x04text"),
    (masked(BINARY, b"\0\1"), b"\x82\x02\0\1"),
    (masked(CLOSE, struct.pack(">H", 1001)), b"\x88\x02\x03\xe9"),
)


def _ask(sock, method, target, body):
    """Status, fields and body."""
    connection = http.client.HTTPConnection("example.test")
    connection.sock = sock
    connection.putrequest(method, target)
    for pair in (("X-Test-A", "value 1"), ("X-Test-B", "value 2"), ("X-Test-A", "value 3")):
        connection.putheader(*pair)
    if body is not None:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    with connection.getresponse() as response:
        fields = sorted(pair for pair in response.getheaders() if pair[0].lower() in COMPARED)
        return response.status, [(name.lower(), value) for name, value in fields], response.read()


def _speak(sock, target):
    """The status of a handshake and, if the WebSocket is open, what came for each of FRAMES."""
    sock.sendall(HANDSHAKE.format(target=target).encode())
    data = b""
    while b"\r\n\r\n" not in data:
        data += _some(sock)
    head, _, data = data.partition(b"\r\n\r\n")
    status = int(head.split(b" ")[1])
    if status != 101:
        return status, []
    said = b"ws GET http 1.1"
    found = []
    for frame, expected in ((b"", bytes((0x81, len(said))) + said), *FRAMES):
        sock.sendall(frame)
        while len(data) < len(expected):
            data += _some(sock)
        found.append(data[: len(expected)])
        data = data[len(expected) :]
    return status, found


def _some(sock):
    piece = sock.recv(65536)
    assert piece, "the connection ended"
    return piece


def _connected(family, address):
    sock = socket.socket(family)
    sock.settimeout(DEADLINE_S)
    try:
        sock.connect(address)
    except (FileNotFoundError, ConnectionRefusedError):
        sock.close()
        return None
    return sock


def _observe(family, address, log):
    """Everything that clients see at this address."""
    found = {}
    for method, target, body in (*REQUESTS, *FAILURES):
        with until(lambda: _connected(family, address), log) as sock:
            status, fields, content = _ask(sock, method, target, body)
        whole = (method, target, body) not in FAILURES
        found[method, target, len(body or b"")] = (status, fields, content) if whole else (status,)
    for target in ("/ws", "/refused", "/refused-plainly", "/silent"):
        with until(lambda: _connected(family, address), log) as sock:
            found[target] = _speak(sock, target)
    return found


@unittest.skipUnless(importlib.util.find_spec("granian"), "granian is not installed")
class Compared(unittest.TestCase):
    maxDiff = None

    @needs_maitred
    def test_the_same_as_below_granian(self):
        words = ["-m", "granian", "--interface", "rsgi", "--workers", "1", "--uds", "{dir}/socket", "app:app"]
        with Process(*words, files={"app.py": APP}) as process:
            expected = _observe(socket.AF_UNIX, str(process.path / "socket"), process.log)
        with Behind(APP, "rsgi") as site:
            found = _observe(socket.AF_INET, site.address, site.log)
        for key, value in expected.items():
            self.assertEqual(found[key], value, key)
        # What is compared is not two failures.
        self.assertEqual([expected[method, target, 0] for method, target, _ in FAILURES], [(500,), (500,), (404,)])
        self.assertEqual([value[0] for value in expected.values()].count(500), 2)
        self.assertIn(b"ProtocolError ProtocolError", expected["GET", "/found_", 0][2])


if __name__ == "__main__":
    unittest.main()
