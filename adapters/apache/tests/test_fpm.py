"""php-fpm behind Apache's mod_proxy_fcgi, as docs/applications.md has it."""

import json
import os
import signal
import subprocess
import unittest
from pathlib import Path

import server
from server import kit
from test_php import SCRIPTS

LIMITS = "StartServers 1\nMinSpareThreads 5\nMaxSpareThreads 20\nThreadsPerChild 10\nMaxRequestWorkers 20\n"
CONFIGURATION = """
<Proxy "unix:{root}/fpm.sock|fcgi://localhost">
    ProxySet flushpackets=on
</Proxy>
<FilesMatch "\\\\.php$">
    SetHandler "proxy:unix:{root}/fpm.sock|fcgi://localhost"
</FilesMatch>
"""
POOL = """[global]
error_log = {root}/fpm.log
daemonize = no
[www]
{user}
listen = {root}/fpm.sock
listen.mode = 0666
pm = static
pm.max_children = 2
php_admin_value[output_buffering] = 4096
"""


def _program():
    """Debian's name of it ends with PHP's version."""
    found = sorted(Path("/usr/sbin").glob("php-fpm*"))
    return str(found[-1]) if found else None


class Fpm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = server.missing() or (None if _program() else "no php-fpm (Debian: php-fpm)")
        if why is not None:
            raise unittest.SkipTest(why)
        cls.apache = server.Apache("event", LIMITS + CONFIGURATION, ["proxy", "proxy_fcgi"])
        root = cls.apache.root
        for name in ("index.php", "events.php", "buffered.php", "426.php"):
            (root / "public" / name).write_text(SCRIPTS[name])
        user = "user = www-data\ngroup = www-data" if os.geteuid() == 0 else ""
        (root / "fpm.conf").write_text(POOL.format(root=root, user=user))
        cls.fpm = subprocess.Popen([_program(), "-y", str(root / "fpm.conf"), "-F"], stderr=subprocess.DEVNULL)
        cls.addClassCleanup(cls.fpm.wait)
        cls.addClassCleanup(cls.fpm.send_signal, signal.SIGTERM)
        cls.apache.__enter__()
        cls.addClassCleanup(cls.apache.__exit__)
        cls.apache.wait_for((root / "fpm.sock").exists, "php-fpm to listen")

    def setUp(self):
        self.channel = kit.Connected(self.apache.path, str(self.apache.log))
        self.addCleanup(self.channel.__exit__)
        self.channel.welcome()
        self.channel.wants_404 = True

    def test_a_page_knows_its_client(self):
        meta = "remote=192.0.2.7:4711\nlocal=192.0.2.1:443\nscheme=https\n"
        seen = json.loads(self.channel.ask("/index.php?q=1", meta=meta)[0].body)["server"]
        self.assertEqual((seen["REMOTE_ADDR"], seen["HTTPS"], seen["REQUEST_URI"]), ("192.0.2.7", "on", "/index.php?q=1"))

    def test_upgrade_in_a_426_is_the_pages(self):
        answer, done, _ = self.channel.ask("/426.php")
        self.assertEqual((answer.status, answer.one("upgrade"), answer.one("connection")), (426, "websocket", "upgrade"))
        self.assertEqual((answer.body, done.flags), (b"no", kit.CLEAN))

    def test_events_arrive_one_at_a_time(self):
        gate = self.apache.root / "public" / "gate"
        os.mkfifo(gate)
        self.addCleanup(gate.unlink)
        gate.chmod(0o666)
        for number, target in enumerate(("/events.php", "/buffered.php")):
            client = self.channel.client()
            self.channel.send(kit.request_frame(7 + number, 1, target, descriptors=1), [client.far.fileno()])
            self.assertTrue(client._until(b"\r\n\r\n").startswith(b"HTTP/1.1 200 "))
            for event in range(1, 6):
                self.assertEqual(client._until(b"\r\n"), b"9")
                self.assertEqual(client.read_exactly(11), b"data: %d\n\n\r\n" % event)
                # The page goes on when the gate was opened and closed.
                server.open_gate(gate)
            self.assertEqual(self.channel.done().flags, kit.CLEAN)


if __name__ == "__main__":
    unittest.main()
