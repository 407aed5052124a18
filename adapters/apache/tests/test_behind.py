"""What people keep Apache for, as clients of the real Maitred in front of it see it."""

import base64
import hashlib
import json
import os
import subprocess
import unittest

import front  # first: it knows where `load` is
import server
from load import ask, request
from test_php import PHP, SCRIPTS

LIMITS = "StartServers 2\nMinSpareServers 2\nMaxSpareServers 2\nMaxRequestWorkers 4\n"
SITE = """
php_admin_value post_max_size 64M
<Location "/server-status">
    SetHandler server-status
    Require all granted
</Location>
<VirtualHost *:*>
    ServerName test.example
    RewriteEngine On
    RewriteRule "^/old/(.*)$" "/page.php?rewritten=$1" [PT,QSA]
    RewriteRule "^/moved$" "/page.php" [R=301]
</VirtualHost>
<VirtualHost *:*>
    ServerName other.example
    DocumentRoot "{root}/public/other"
</VirtualHost>
"""
PAGE = """<?php
header('Content-Type: application/json');
$body = file_get_contents('php://input');
echo json_encode(['get' => $_GET, 'post' => $_POST, 'bytes' => strlen($body), 'sha256' => hash('sha256', $body),
    'server' => array_intersect_key($_SERVER, array_flip(['REMOTE_ADDR', 'HTTPS', 'SERVER_NAME', 'REQUEST_SCHEME']))]);
"""
# Says nothing until its gate is opened, and then much.
SILENT = """<?php
ignore_user_abort(true);
file_get_contents(__DIR__ . '/silent');
for ($n = 0; $n < 100000 && !connection_aborted(); $n++) { echo str_repeat('x', 1000); flush(); }
file_put_contents(__DIR__ . '/seen', connection_aborted() ? 'aborted' : 'not');
"""
MEMBERS = """AuthType Basic
AuthName members
AuthUserFile {root}/users
Require valid-user
"""
LARGE_BYTES = 20 << 20


class Behind(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = front.missing() or (None if server.php_module() else "no mod_php (Debian: libapache2-mod-php)")
        if why is not None:
            raise unittest.SkipTest(why)
        cls.apache = server.Apache("prefork", LIMITS + PHP.replace("{php}", server.php_module()) + SITE)
        root, public = cls.apache.root, cls.apache.root / "public"
        for name in ("other", "members"):
            (public / name).mkdir()
        (public / "page.php").write_text(PAGE)
        (public / "much.php").write_text("<?php for ($n = 0; $n < 8192; $n++) { echo str_repeat('y', 1024); }")
        (public / "events.php").write_text(SCRIPTS["events.php"])
        (public / "silent.php").write_text(SILENT)
        public.chmod(0o777)
        (public / "index.html").write_text("first")
        (public / "other" / "index.html").write_text("second")
        (public / "members" / "index.html").write_text("for members")
        (public / "members" / ".htaccess").write_text(MEMBERS.format(root=root))
        hashed = subprocess.run(["openssl", "passwd", "-apr1", "lovelace"], capture_output=True, text=True, check=True)
        (root / "users").write_text(f"ada:{hashed.stdout}")
        cls.large = bytes(range(256)) * (LARGE_BYTES // 256)
        (public / "large").write_bytes(cls.large)
        cls.apache.__enter__()
        cls.addClassCleanup(cls.apache.__exit__)
        # One channel: a request that holds it holds all.
        cls.front = front.Maitred(cls.apache, "workers = 1")
        cls.front.__enter__()
        cls.addClassCleanup(cls.front.__exit__)

    def page(self, target="/page.php", **options):
        """What the page has seen."""
        response = self.front.ask(target, **options)
        self.assertEqual(response.status, 200, response.body)
        return json.loads(response.body)

    def test_pages_get_queries_and_forms(self):
        kind = [("Content-Type", "application/x-www-form-urlencoded")]
        seen = self.page("/page.php?a=gr%C3%BCn", method="POST", body=b"b=1&c=%3C3", fields=kind)
        self.assertEqual((seen["get"], seen["post"]), ({"a": "grün"}, {"b": "1", "c": "<3"}))

    def test_a_directory_with_a_password(self):
        self.assertEqual(self.front.ask("/members/").status, 401)
        fields = [("Authorization", "Basic " + base64.b64encode(b"ada:lovelace").decode())]
        self.assertEqual(self.front.ask("/members/", fields=fields).body, b"for members")

    def test_addresses_are_rewritten(self):
        self.assertEqual(self.page("/old/thing?more=1")["get"], {"rewritten": "thing", "more": "1"})
        moved = self.front.ask("/moved")
        self.assertEqual((moved.status, moved.one("location").partition("test.example")[2]), (301, "/page.php"))

    def test_hosts_are_told_apart(self):
        self.assertEqual(self.front.ask("/").body, b"first")
        self.assertEqual(self.front.ask("/", host="other.example").body, b"second")

    def test_the_client_is_the_client(self):
        seen = self.page()["server"]
        self.assertEqual((seen["REMOTE_ADDR"], seen["REQUEST_SCHEME"], seen["SERVER_NAME"]), ("127.0.0.1", "http", "test.example"))
        self.assertNotIn("HTTPS", seen)

    def test_what_a_trusted_proxy_says_of_the_client_is_believed(self):
        fields = [("X-Forwarded-For", "198.51.100.9"), ("X-Forwarded-Proto", "https")]
        seen = self.page(fields=fields)["server"]
        self.assertEqual((seen["REMOTE_ADDR"], seen["HTTPS"], seen["REQUEST_SCHEME"]), ("198.51.100.9", "on", "https"))

    def test_the_status_shows_the_request(self):
        page = self.front.ask("/server-status").body.decode()
        self.assertIn("GET /server-status HTTP/1.1", page)
        self.assertIn("127.0.0.1", page)

    def test_ranges_and_revalidation_are_apaches(self):
        whole = self.front.ask("/large", method="HEAD")
        self.assertEqual(whole.one("content-length"), str(LARGE_BYTES))
        part = self.front.ask("/large", fields=[("Range", "bytes=1000000-1000099")])
        self.assertEqual((part.status, part.body), (206, self.large[1000000:1000100]))
        same = self.front.ask("/large", fields=[("If-None-Match", whole.one("etag"))])
        self.assertEqual((same.status, same.body), (304, b""))

    def test_ten_megabytes_are_uploaded(self):
        body = self.large[: 10 << 20]
        seen = self.page(method="POST", body=body, fields=[("Content-Type", "application/octet-stream")])
        self.assertEqual((seen["bytes"], seen["sha256"]), (len(body), hashlib.sha256(body).hexdigest()))

    def test_events_arrive_one_at_a_time(self):
        gate = self.apache.root / "public" / "gate"
        os.mkfifo(gate)
        self.addCleanup(gate.unlink)
        gate.chmod(0o666)
        for transport in ("direct", "relay"):
            with front.Maitred(self.apache, f'workers = 1\ntransport = "{transport}"') as maitred, maitred.connect() as connection:
                connection.send(request("/events.php"))
                self.assertEqual(connection._head()[1], 200)
                for event in range(1, 6):
                    self.assertEqual(connection._line(), b"9", transport)
                    self.assertEqual(connection.exactly(11), b"data: %d\n\n\r\n" % event)
                    # The page goes on when the gate was opened and closed.
                    server.open_gate(gate)
                self.assertEqual(connection.exactly(5), b"0\r\n\r\n")

    def test_a_silent_page_ends_alone(self):
        gate, seen = (self.apache.root / "public" / name for name in ("silent", "seen"))
        os.mkfifo(gate)
        self.addCleanup(gate.unlink)
        gate.chmod(0o666)
        for transport in ("direct", "relay"):
            pool = f'workers = 2\ntransport = "{transport}"\nrequest_timeout = "1s"'
            with front.Maitred(self.apache, pool) as maitred:
                before = self.apache.children()
                self.assertEqual(maitred.ask("/silent.php").status, 504)
                self.assertEqual(maitred.ask("/").body, b"first")
                server.open_gate(gate)
                self.assertTrue(server.eventually(seen.exists))
                self.assertTrue(server.eventually(lambda: seen.read_text() == "aborted"))
                self.assertEqual(maitred.ask("/").body, b"first")
                self.assertLessEqual(set(before), set(self.apache.children()))
            seen.unlink()

    def test_clients_that_read_slowly_hold_no_worker(self):
        slow = [self.front.connect(receive_buffer_bytes=4096) for _ in range(5)]
        try:
            for number, connection in enumerate(slow):
                connection.send(request("/large" if number % 2 else "/much.php"))
            with self.front.connect() as other:
                for _ in range(3):
                    self.assertEqual(ask(other, "/").body, b"first")
            for number, connection in enumerate(slow):
                wanted = self.large if number % 2 else b"y" * (8 << 20)
                self.assertTrue(connection.response().body == wanted, f"client {number}")
        finally:
            for connection in slow:
                connection.__exit__()


if __name__ == "__main__":
    unittest.main()
