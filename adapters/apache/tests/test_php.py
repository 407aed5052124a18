"""mod_php behind a channel: the reason why people keep Apache."""

import json
import os
import unittest

import server
from server import kit

# As Debian's php.ini has it; without any such file, a page that fails is a 200.
PHP = """
LoadModule php_module {php}
php_admin_flag display_errors off
php_admin_value output_buffering 4096
<FilesMatch "\\\\.php$">
    SetHandler application/x-httpd-php
</FilesMatch>
DirectoryIndex index.php index.html
"""

SCRIPTS = {
    "index.php": """<?php
header('Content-Type: application/json');
echo json_encode(['server' => array_intersect_key($_SERVER, array_flip(['REMOTE_ADDR', 'REMOTE_PORT', 'HTTPS',
    'REQUEST_URI', 'SERVER_NAME', 'PATH_INFO', 'SCRIPT_NAME'])), 'post' => $_POST, 'cookies' => $_COOKIE,
    'files' => array_map(fn($file) => [$file['name'], $file['size']], $_FILES)]);
""",
    "stream.php": "<?php for ($n = 0; $n < 3; $n++) { echo str_repeat('x', 10000); flush(); }",
    # The usual snippet.
    "events.php": """<?php
header('Content-Type: text/event-stream');
header('Cache-Control: no-cache');
header('Connection: keep-alive');
header('X-Accel-Buffering: no');
while (ob_get_level() > 0) { ob_end_flush(); }
for ($n = 1; $n <= 5; $n++) { echo "data: $n\\n\\n"; flush(); file_get_contents(__DIR__ . '/gate'); }
""",
    # Output is buffered (php.ini), and flushed in both of PHP's layers.
    "buffered.php": """<?php
header('Content-Type: text/event-stream');
for ($n = 1; $n <= 5; $n++) { echo "data: $n\\n\\n"; ob_flush(); flush(); file_get_contents(__DIR__ . '/gate'); }
""",
    "426.php": "<?php http_response_code(426); header('Upgrade: websocket'); header('Connection: Upgrade'); echo 'no';",
    "fails.php": "<?php echo 'begun'; nothing();",
    "long.php": """<?php
ignore_user_abort(true);
for ($n = 0; $n < 100000 && !connection_aborted(); $n++) { echo str_repeat('x', 1000); flush(); }
file_put_contents(__DIR__ . '/seen', connection_aborted() ? 'aborted' : 'not');
""",
    "session.php": "<?php session_save_path(__DIR__); session_start(); echo $_SESSION['n'] = 1 + ($_SESSION['n'] ?? 0);",
    "status.php": "<?php http_response_code((int)$_GET['s']); header('X-A: 1'); header('X-A: 2', false); echo 'body';",
}


class Php(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = server.missing() or (None if server.php_module() else "no mod_php (Debian: libapache2-mod-php)")
        if why is not None:
            raise unittest.SkipTest(why)
        limits = "StartServers 1\nMinSpareServers 1\nMaxSpareServers 1\nMaxRequestWorkers 2\n"
        cls.apache = server.Apache("prefork", limits + PHP.replace("{php}", server.php_module()))
        public = cls.apache.root / "public"
        public.chmod(0o777)
        for name, text in SCRIPTS.items():
            (public / name).write_text(text)
        (public / ".htaccess").write_text('FallbackResource "/index.php"\nphp_value session.use_strict_mode 1\n')
        cls.apache.__enter__()
        cls.addClassCleanup(cls.apache.__exit__)

    def setUp(self):
        self.channel = kit.Connected(self.apache.path, str(self.apache.log))
        self.addCleanup(self.channel.__exit__)
        self.channel.welcome()
        self.channel.wants_404 = True

    def test_a_page_knows_its_client(self):
        seen = json.loads(self.channel.ask("/some/where?q=1", fields=[("cookie", "a=1"), ("cookie", "b=2")])[0].body)
        self.assertEqual(seen["server"]["REMOTE_ADDR"], "192.0.2.7")
        self.assertEqual(seen["server"]["REMOTE_PORT"], "4711")
        self.assertEqual(seen["server"]["REQUEST_URI"], "/some/where?q=1")
        self.assertNotIn("HTTPS", seen["server"])
        self.assertEqual(seen["cookies"], {"a": "1", "b": "2"})
        meta = "remote=192.0.2.7:1\nlocal=192.0.2.1:443\nscheme=https\n"
        self.assertEqual(json.loads(self.channel.ask("/", meta=meta)[0].body)["server"]["HTTPS"], "on")

    def test_forms_and_uploads_arrive(self):
        form = [("content-type", "application/x-www-form-urlencoded")]
        seen = json.loads(self.channel.ask("/", method="POST", body=b"a=1&b=gr%C3%BCn", fields=form)[0].body)
        self.assertEqual(seen["post"], {"a": "1", "b": "grün"})
        upload = b'--mark\r\nContent-Disposition: form-data; name="f"; filename="n.bin"\r\n\r\n' + b"z" * 300_000 + b"\r\n--mark--\r\n"
        kind = [("content-type", "multipart/form-data; boundary=mark")]
        seen = json.loads(self.channel.ask("/", method="POST", body=upload, fields=kind)[0].body)
        self.assertEqual(seen["files"], {"f": ["n.bin", 300_000]})

    def test_pages_of_unknown_length_are_chunked(self):
        answer, done, _ = self.channel.ask("/stream.php")
        self.assertEqual((answer.how, answer.body, done.flags), ("chunked", b"x" * 30000, kit.CLEAN))
        answer, done, _ = self.channel.ask("/stream.php", flags=kit.HTTP10)
        self.assertEqual((answer.how, len(answer.body), done.flags), ("close", 30000, kit.CLOSE))

    def test_events_arrive_one_at_a_time(self):
        gate = self.apache.root / "public" / "gate"
        os.mkfifo(gate)
        self.addCleanup(gate.unlink)
        gate.chmod(0o666)
        for number, target in enumerate(("/events.php", "/buffered.php")):
            client = self.channel.client()
            self.channel.send(kit.request_frame(7 + number, 1, target, descriptors=1), [client.far.fileno()])
            head = client._until(b"\r\n\r\n")
            self.assertTrue(head.startswith(b"HTTP/1.1 200 ") and b"\r\nConnection:" not in head, head)
            for event in range(1, 6):
                # The page goes on when the gate was opened and closed: what was read by then left before that.
                self.assertEqual(client._until(b"\r\n"), b"9")
                self.assertEqual(client.read_exactly(11), b"data: %d\n\n\r\n" % event)
                self.assertTrue(client.is_quiet())
                server.open_gate(gate)
            self.assertEqual(self.channel.done().flags, kit.CLEAN)
            self.assertEqual(client.read_exactly(5), b"0\r\n\r\n")

    def test_upgrade_in_a_426_is_the_pages(self):
        for flags, connection in ((kit.KEEP, "upgrade"), (0, "close, upgrade")):
            answer, done, _ = self.channel.ask("/426.php", flags=flags)
            self.assertEqual((answer.status, answer.one("upgrade"), answer.one("connection")), (426, "websocket", connection))
            self.assertEqual((answer.body, done.flags), (b"no", kit.CLEAN))

    def test_a_page_that_fails_is_a_500(self):
        self.assertEqual(self.channel.ask("/fails.php")[0].status, 500)
        self.assertEqual(self.channel.ask("/")[0].status, 200)

    def test_a_page_is_told_that_its_client_has_gone(self):
        client = self.channel.client()
        self.channel.send(kit.request_frame(7, 1, "/long.php", descriptors=1), [client.far.fileno()])
        client.read_exactly(1000)
        client.far.shutdown(2)
        self.assertEqual(self.channel.done().flags, 0)
        self.assertEqual((self.apache.root / "public" / "seen").read_text(), "aborted")

    def test_sessions_are_kept(self):
        first, _, _ = self.channel.ask("/session.php")
        cookie = first.one("set-cookie").split(";")[0]
        second, _, _ = self.channel.ask("/session.php", fields=[("cookie", cookie)])
        self.assertEqual((first.body, second.body), (b"1", b"2"))

    def test_statuses_and_repeated_fields_are_the_pages(self):
        answer, _, _ = self.channel.ask("/status.php?s=410")
        self.assertEqual((answer.status, answer.all("x-a")), (410, ["1", "2"]))
        answer, done, _ = self.channel.ask("/status.php?s=304")
        self.assertEqual((answer.status, done.body_bytes, done.flags), (304, 0, kit.CLEAN))


if __name__ == "__main__":
    unittest.main()
