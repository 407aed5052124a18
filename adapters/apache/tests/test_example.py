"""examples/apache-php, as it stands in the repository: over a channel, and as a whole, behind the real Maitred."""

import base64
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import front  # first: it knows where `load` and `servers` are
import server
import servers
from load import ask
from server import kit

EXAMPLE = server.ADAPTER.parent.parent / "examples" / "apache-php"


class Example(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = server.missing() or (None if server.php_module() else "no mod_php (Debian: libapache2-mod-php)")
        if why is not None:
            raise unittest.SkipTest(why)
        directory = tempfile.TemporaryDirectory(prefix="maitred-example-")
        cls.addClassCleanup(directory.cleanup)
        # The same places relative to one another as in the repository, where Apache's user may not be allowed to look.
        cls.root = Path(directory.name) / "examples" / "apache-php"
        shutil.copytree(EXAMPLE, cls.root, ignore=shutil.ignore_patterns("*.sock", "*.log", "*.pid"))
        built = Path(directory.name) / "adapters" / "apache" / ".libs"
        built.mkdir(parents=True)
        shutil.copy(server.build() / "mod_maitred.so", built)
        Path(directory.name).chmod(0o755)
        command = [server.path_of("apache2"), "-d", str(cls.root), "-f", "httpd.conf", "-D", "FOREGROUND"]
        environment = {**os.environ, "PWD": str(cls.root)}
        cls.process = subprocess.Popen(command, start_new_session=True, cwd=cls.root, env=environment)
        cls.addClassCleanup(cls._end)
        server.eventually(lambda: (cls.root / "maitred.sock").exists() or cls.process.poll() is not None)

    @classmethod
    def _end(cls):
        cls.process.terminate()
        cls.process.wait()

    def setUp(self):
        self.channel = kit.Connected(str(self.root / "maitred.sock"), str(self.root / "error.log"))
        self.addCleanup(self.channel.__exit__)
        self.channel.welcome()

    def ask(self, target, **options):
        return self.channel.ask(target, host="localhost", **options)[0]

    def test_the_form_greets(self):
        self.assertIn("You are 192.0.2.7, by http", self.ask("/").body.decode())
        kind = [("content-type", "application/x-www-form-urlencoded")]
        self.assertIn("Hello, Ada &lt;3!", self.ask("/", method="POST", body=b"name=Ada+%3C3", fields=kind).body.decode())

    def test_members_need_a_password(self):
        self.assertEqual(self.ask("/members/").status, 401)
        fields = [("authorization", "Basic " + base64.b64encode(b"ada:lovelace").decode())]
        self.assertIn("Welcome, ada", self.ask("/members/", fields=fields).body.decode())
        self.assertEqual(self.ask("/members/.htaccess", fields=fields).status, 403)

    def test_addresses_are_rewritten(self):
        self.assertIn("Hello?", self.ask("/old-name").body.decode())

    def test_apache_says_what_it_does(self):
        self.assertIn("GET /server-status HTTP/1.1", self.ask("/server-status").body.decode())

    def test_the_document_shows_lines_of_the_example(self):
        section = (server.ADAPTER.parent.parent / "docs" / "applications.md").read_text().partition("### Apache\n")[2].partition("\n##")[0]
        blocks = re.findall(r"```(apache|toml)\n(.*?)```", section, re.DOTALL)
        self.assertEqual([kind for kind, _ in blocks], ["apache", "toml"])
        for kind, text in blocks:
            self.assertIn(text, (EXAMPLE / {"apache": "httpd.conf", "toml": "maitred.toml"}[kind]).read_text())

    def test_behind_maitred(self):
        why = front.missing()
        if why is not None:
            self.skipTest(why)
        text = (EXAMPLE / "maitred.toml").read_text()
        self.assertEqual(text.count('":8080"'), 1)
        (self.root / "maitred.toml").write_text(text.replace('":8080"', '"127.0.0.1:0"'))
        words = [str(servers.binary()), "run", "-c", "maitred.toml"]
        maitred = servers.Process(words, self.root, {}, self.root / "maitred.log")
        try:
            address = maitred.until("saying where it listens", lambda: servers.listening(maitred))
            with front.client.Connection(address) as connection:
                self.assertIn("You are 127.0.0.1, by http", ask(connection, "/", host="localhost").body.decode())
                self.assertIn("Hello?", ask(connection, "/old-name", host="localhost").body.decode())
                self.assertEqual(ask(connection, "/members/", host="localhost").status, 401)
                style = ask(connection, "/style.css", host="localhost")
                self.assertEqual((style.status, style.body), (200, (EXAMPLE / "public" / "style.css").read_bytes()))
                # By Maitred: Apache's log has the others only.
                self.assertNotIn("style.css", (self.root / "access.log").read_text())
        finally:
            maitred.stop()


if __name__ == "__main__":
    unittest.main()
