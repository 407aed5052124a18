"""Fields behind the content of responses: `trailers_out` of handlers, and what a backend of mod_proxy sends."""

import re
import shutil
import socketserver
import subprocess
import threading
import unittest

import front  # first: it knows where `load` is
import server
from load import request
from server import kit

CONFIGURATION = """
LogLevel warn maitred:debug
StartServers 2
MinSpareServers 2
MaxSpareServers 2
MaxRequestWorkers 4
ErrorDocument 503 "/bytes/7"
ProxyPass "/backend" "http://127.0.0.1:{port}/" disablereuse=on
<LocationMatch "^/(bytes|chunks|trailers|odd-trailers|failed-trailers|status)(/|$)">
    SetHandler reference
</LocationMatch>
ScriptAlias "/nph" "{cgi}/nph-chunks.py"
"""
TAKEN = {"trailers": 1}
TAKES = [("TE", "trailers")]
CRATE = server.ADAPTER.parent.parent / "crates" / "maitred-handoff" / "src" / "response.rs"


class _Backend(socketserver.StreamRequestHandler):
    def handle(self):
        while self.rfile.readline().strip():
            pass
        head = "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
        self.wfile.write(f"{head}4\r\nbody\r\n0\r\nX-Sum: 4\r\nSet-Cookie: a=b\r\n\r\n".encode())


class Trailers(unittest.TestCase):
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
        cls.apache = server.Apache("prefork", more, ["proxy", "proxy_http"])
        cls.apache.__enter__()
        cls.addClassCleanup(cls.apache.__exit__)

    def ask(self, target, says=TAKEN, **options):
        """What a client gets, by default one that takes trailers: (answer, DONE)."""
        if not hasattr(self, "channel"):
            self.channel = kit.Connected(self.apache.path, str(self.apache.log))
            self.addCleanup(self.channel.__exit__)
            self.channel.welcome()
        answer, done, client = self.channel.ask(target, says=says, **options)
        self.assertEqual(done.flags, kit.CLEAN)
        self.assertTrue(client.is_quiet(), "something behind the response")
        return answer, done

    def test_they_follow_the_last_chunk(self):
        for target in ("/trailers", "/trailers/0/1"):
            answer, done = self.ask(target)
            self.assertEqual((answer.how, answer.body, answer.trailers), ("chunked", b"body", [("x-sum", "4")]))
            self.assertEqual((answer.all("trailer"), answer.all("content-length"), done.body_bytes), (["X-Sum"], [], 4))

    def test_nothing_is_announced_that_the_application_does_not_announce(self):
        answer, _ = self.ask("/odd-trailers/2/3")
        self.assertEqual((answer.all("trailer"), answer.trailers), ([], [("x", "yyy")] * 2))

    def test_what_cannot_be_sent_is_left_out(self):
        self.assertEqual(self.ask("/odd-trailers/1/1")[0].trailers, [("x", "y")])
        self.assertEqual(self.ask("/odd-trailers/0/0")[0].trailers, [])
        said = self.apache.log.read_text()
        for name, why in (("SET-COOKIE", "a field of this name"), ("X-Line", "a control character"), ("X Space", "its name is")):
            self.assertIn(f"the trailer {name} is not sent: {why}", said)

    def test_the_crate_has_the_same_idea_of_them(self):
        lists = []
        for path in (CRATE, server.ADAPTER / "trailers.c"):
            found = re.search(r"NOT_IN_TRAILERS.*? = (?:\[|\{)(.*?)(?:\]|\});", path.read_text(), re.DOTALL)
            lists.append(sorted(re.findall(r'"([a-z-]+)"', found[1])))
        self.assertEqual(*lists)
        self.assertEqual(len(lists[0]), 45)

    def test_they_are_bounded(self):
        for count, size in ((32, 1), (1, 8185)):
            self.assertEqual(len(self.ask(f"/odd-trailers/{count}/{size}")[0].trailers), count)
        for count, size in ((33, 1), (1, 8186), (2, 8185)):
            answer, _ = self.ask(f"/odd-trailers/{count}/{size}")
            self.assertEqual((answer.body, answer.trailers), (b"body", []))
        self.assertIn("33 trailers of 198 bytes are too many", self.apache.log.read_text())

    def test_a_response_that_is_not_in_chunks_has_none(self):
        for options in ({"says": {}}, {"says": {}, "target": "/trailers/0/1"}, {"target": "/trailers/4"}, {"method": "HEAD"}):
            answer, _ = self.ask(**{"target": "/trailers", **options})
            self.assertEqual((answer.trailers, answer.all("trailer"), answer.all("x-sum")), ([], [], []), options)
        self.assertEqual(self.ask("/trailers/4")[0].all("content-length"), ["4"])
        self.assertEqual(self.ask("/bytes/5")[0].all("content-length"), ["5"])

    def test_an_error_page_has_none(self):
        for status in (403, 500, 503):
            answer, _ = self.ask(f"/failed-trailers/{status}")
            self.assertEqual((answer.status, answer.trailers, answer.all("trailer")), (status, [], []))

    def test_those_of_programs_that_write_chunks_are_dropped(self):
        answer, _ = self.ask("/nph?odd")
        self.assertEqual((answer.body, answer.trailers, answer.all("trailer")), (b"one two", [], []))

    def test_those_of_a_backend_pass(self):
        answer, _ = self.ask("/backend")
        self.assertEqual((answer.body, answer.trailers), (b"body", [("x-sum", "4")]))
        self.assertEqual(self.ask("/backend", {})[0].body, b"body")

    @unittest.skipIf(front.missing(), front.missing())
    def test_clients_of_http_1(self):
        for transport in ("direct", "relay"):
            with front.Maitred(self.apache, f'workers = 2\ntransport = "{transport}"') as maitred:
                with maitred.connect() as connection:
                    connection.send(request("/trailers", fields=TAKES) + request("/trailers/4", fields=[("Connection", "close")]))
                    seen, _, behind = connection.rest().partition(b"\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 4\r\n\r\n")
                    self.assertIn(b"\r\nTrailer: X-Sum\r\n", seen, transport)
                    self.assertTrue(behind.startswith(b"HTTP/1.1 200 OK\r\n") and behind.endswith(b"\r\n\r\nbody"), behind)
                    self.assertNotIn(b"X-Sum", behind)
                with maitred.connect() as connection:
                    connection.send(request("/trailers", fields=[("Connection", "close")]))
                    seen = connection.rest()
                    self.assertTrue(b"body" in seen and b"X-Sum" not in seen, seen)

    @unittest.skipIf(front.missing(), front.missing())
    @unittest.skipUnless(shutil.which("curl"), "no curl")
    def test_clients_of_http_2(self):
        for transport in ("direct", "relay"):
            with front.Maitred(self.apache, f'workers = 2\ntransport = "{transport}"') as maitred:
                for target in ("/trailers", "/backend"):
                    url = "http://{}:{}{}".format(*maitred.address, target)
                    words = ["curl", "-sv", "--http2-prior-knowledge", "--max-time", str(server.DEADLINE_S), url]
                    asked = subprocess.run(words, capture_output=True, check=True)
                    self.assertEqual(asked.stdout, b"body")
                    _, _, after = asked.stderr.partition(b"< \r\n")
                    self.assertIn(b"< x-sum: 4", after, asked.stderr)
                    self.assertNotIn(b"content-length", asked.stderr)


if __name__ == "__main__":
    unittest.main()
