"""mod_proxy behind a channel: responses that come from elsewhere, and that may end before they should."""

import socketserver
import threading
import unittest
from pathlib import Path

import server
from server import kit

CONFIGURATION = """
StartServers 1
MinSpareServers 1
MaxSpareServers 1
MaxRequestWorkers 2
ProxyPass "/ws" "ws://127.0.0.1:{port}/websocket"
ProxyPass "/both" "http://127.0.0.1:{port}/websocket" upgrade=websocket
<Location "/may-name">
    MaitredSendfile on
</Location>
# The backend closes each connection behind its answer.
ProxyPass "/may-name" "http://127.0.0.1:{port}/sendfile" disablereuse=on
ProxyPass "/" "http://127.0.0.1:{port}/" disablereuse=on
"""

FIELDS = "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nServer: backend\r\n"
ANSWERS = {
    "/length": f"HTTP/1.1 200 OK\r\n{FIELDS}Content-Length: 5\r\n\r\nhello",
    "/chunks": f"HTTP/1.1 200 OK\r\n{FIELDS}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
    "/close": f"HTTP/1.1 200 OK\r\n{FIELDS}Connection: close\r\n\r\nuntil the end",
    "/cut": f"HTTP/1.1 200 OK\r\n{FIELDS}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nwo",
    "/cut-length": f"HTTP/1.1 200 OK\r\n{FIELDS}Content-Length: 50000\r\n\r\n" + "x" * 20000,
    "/hints": f"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n{FIELDS}Content-Length: 2\r\n\r\nok",
    "/no-websocket": f"HTTP/1.1 426 Upgrade Required\r\n{FIELDS}Upgrade: websocket\r\nContent-Length: 5\r\n\r\nplain",
    "/empty": "",
    "/sendfile": f"HTTP/1.1 200 OK\r\n{FIELDS}X-Sendfile: /etc/passwd\r\nContent-Length: 2\r\n\r\nno",
    "/many-hints": "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 9 + f"HTTP/1.1 200 OK\r\n{FIELDS}Content-Length: 2\r\n\r\nok",
}


class _Backend(socketserver.StreamRequestHandler):
    def handle(self):
        line = self.rfile.readline().decode()
        length, upgrade = 0, False
        while (field := self.rfile.readline()).strip():
            name, _, value = field.decode().partition(":")
            upgrade |= name.lower() == "upgrade"
            length = int(value) if name.lower() == "content-length" else length
        body = self.rfile.read(length).decode()
        path = line.split()[1]
        if path == "/websocket" and not upgrade:
            path = "/no-websocket"
        text = ANSWERS.get(path, f"HTTP/1.1 200 OK\r\n{FIELDS}Content-Length: {len(body)}\r\n\r\n{body}")
        self.wfile.write(text.encode())


class Proxy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = server.missing()
        if why is not None:
            raise unittest.SkipTest(why)
        backend = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Backend)
        cls.addClassCleanup(backend.server_close)
        threading.Thread(target=backend.serve_forever).start()
        cls.addClassCleanup(backend.shutdown)
        more = CONFIGURATION.replace("{port}", str(backend.server_address[1]))
        cls.apache = server.Apache("prefork", more, ["proxy", "proxy_http", "proxy_wstunnel"])
        cls.apache.__enter__()
        cls.addClassCleanup(cls.apache.__exit__)

    def setUp(self):
        self.channel = kit.Connected(self.apache.path, str(self.apache.log))
        self.addCleanup(self.channel.__exit__)
        self.channel.welcome()
        self.channel.wants_404 = True

    def test_framing_is_for_the_client(self):
        for target, how, body in (
            ("/length", "length", b"hello"),
            ("/chunks", "chunked", b"hello world"),
            ("/close", "chunked", b"until the end"),
        ):
            answer, done, _ = self.channel.ask(target)
            self.assertEqual((answer.body, done.flags, answer.one("connection")), (body, kit.CLEAN, None), target)
            self.assertIn(answer.how, (how, "length"))

    def test_bodies_reach_the_backend(self):
        self.assertEqual(self.channel.ask("/echo", method="POST", body=b"z" * 100_000)[0].body, b"z" * 100_000)

    def test_informational_responses_are_dropped_unless_they_are_asked_for(self):
        for target in ("/hints", "/many-hints"):
            answer, done, _ = self.channel.ask(target)
            self.assertEqual((answer.status, answer.body, done.flags), (200, b"ok", kit.CLEAN))

    def test_informational_responses_of_a_backend_go_to_clients_that_may_have_them(self):
        for target, count in (("/hints", 1), ("/many-hints", 9)):
            client = self.channel.client()
            data = kit.request_frame(7, 1, target, descriptors=1, says={"early_hints": 1})
            self.channel.send(data, [client.far.fileno()])
            done = self.channel.done()
            for _ in range(count):
                hint = client.informational()
                self.assertEqual((hint.status, hint.fields), (103, [("link", "</a>")]))
            answer = client.answer()
            self.assertEqual((answer.status, answer.body), (200, b"ok"))
            self.assertEqual((done.status, done.flags, done.body_bytes), (200, kit.CLEAN, 2))

    def test_a_response_that_breaks_off_is_not_clean(self):
        for target in ("/cut", "/cut-length"):
            client = self.channel.client()
            self.channel.send(kit.request_frame(7, 1, target, descriptors=1), [client.far.fileno()])
            done = self.channel.done()
            self.assertNotEqual((done.flags, done.status), (kit.CLEAN, 200), target)
        self.assertEqual(self.channel.ask("/length")[0].body, b"hello")

    def test_a_backend_that_says_nothing_is_a_502(self):
        self.assertEqual(self.channel.ask("/empty")[0].status, 502)

    def test_a_backend_cannot_ask_for_files_unless_it_is_allowed(self):
        for says in ({}, {"sendfile_root": "/etc"}):
            answer = self.channel.ask("/sendfile", says=says)[0]
            self.assertEqual((answer.body, answer.all("x-sendfile")), (b"no", ["/etc/passwd"]))
        answer = self.channel.ask("/may-name", says={"sendfile_root": "/etc"})[0]
        self.assertEqual((answer.body, answer.all("x-sendfile")), (Path("/etc/passwd").read_bytes(), []))
        self.assertEqual(self.channel.ask("/may-name")[0].body, b"no")
        self.assertEqual(self.channel.ask("/may-name", says={"sendfile_root": "/usr"})[0].status, 500)

    def test_upgrades_are_declined(self):
        fields = [("upgrade", "websocket"), ("connection", "upgrade")]
        for target in ("/length", "/both", "/ws"):
            answer, done, _ = self.channel.ask(target, fields=fields, flags=kit.KEEP | kit.MAY_DETACH, early=b"early")
            # As a server of WebSockets answers what is none (RFC 9110, section 15.5.22); those of `http` just answer.
            status, body = (200, b"hello") if target == "/length" else (426, b"plain")
            self.assertEqual((answer.status, answer.body, done.flags), (status, body, kit.CLEAN))
            named = ["upgrade"] if status == 426 else []
            self.assertEqual((answer.all("sec-websocket-accept"), answer.all("connection")), ([], named))
        said = self.apache.log.read_text().count("a WebSocket was asked for")
        # Once in each process of Apache's.
        self.assertIn(said, (1, 2))


if __name__ == "__main__":
    unittest.main()
