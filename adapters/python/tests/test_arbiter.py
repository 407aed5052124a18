"""gunicorn's arbiter behind the real Maitred (`connect = "unix:…"`): its signals cost no client a request."""

import importlib.util
import os
import re
import select
import signal
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / "adapters" / "differential"))

if sys.version_info >= (3, 11):
    import servers
    from load import Load, ask

    try:
        MAITRED = servers.binary()
    except servers.StartFailed:
        MAITRED = None
else:
    MAITRED = None

APP = """
import os
def app(environ, start_response):
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"%d" % (os.getpid() if environ["PATH_INFO"] == "/pid" else len(body))]
"""

# Bodies in the frame and as files, which may not be asked twice.
ASKED = [("/", None, b"0"), ("/", b"x" * 100, b"100"), ("/", b"x" * 200_000, b"200000")]
CLIENTS = 6


def configuration():
    """What docs/applications.md shows, on any free port."""
    document = (ROOT / "docs" / "applications.md").read_text()
    [text] = [block for block in re.findall(r"```toml\n(.*?)```", document, re.DOTALL) if "unix:app.sock" in block]
    return '[server]\nshare_user = true\n[log]\naccess = "off"\n' + text.replace('":8080"', '"127.0.0.1:0"')


@unittest.skipUnless(importlib.util.find_spec("gunicorn"), "gunicorn is not installed")
@unittest.skipUnless(MAITRED, "there is no debug build of maitred (cargo build -p maitred), or Python is older than 3.11")
class Arbiter(unittest.TestCase):
    def run_behind(self, check, *options):
        """gunicorn with its arbiter, Maitred, and `check(address, arbiter, load)` with clients that do not stop asking."""
        with tempfile.TemporaryDirectory() as directory:
            directory = Path(directory)
            (directory / "app.py").write_text(APP)
            (directory / "maitred.toml").write_text(configuration())
            words = [sys.executable, "-m", "gunicorn", "-k", "maitred.gunicorn.HandoffWorker", "-b", "unix:app.sock", "-w", "2"]
            environment = {"PYTHONPATH": str(ROOT / "adapters" / "python")}
            self.arbiter = servers.Process([*words, *options, "app:app"], directory, environment, directory / "arbiter.log")
            try:
                self.arbiter.until("listening", lambda: (directory / "app.sock").exists() or None)
                words = [str(MAITRED), "run", "-c", "maitred.toml"]
                self.front = servers.Process(words, directory, {}, directory / "front.log")
                try:
                    self.address = self.front.until("listening", lambda: servers.listening(self.front))
                    with Load(self.connect, ASKED, CLIENTS) as load:
                        load.more(50)
                        check(load)
                finally:
                    self.front.stop()
            finally:
                self.arbiter.stop()

    def connect(self):
        return servers.Connection(self.address)

    def workers(self):
        """Numbers of gunicorn's workers."""
        pid = self.arbiter.pid
        return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}

    def until_replaced(self, before):
        for pid in before:
            try:
                process = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            # Readable when the process has ended (pidfd_open(2)).
            ended, _, _ = select.select([process], [], [], 60)
            os.close(process)
            self.assertTrue(ended, self.arbiter.output())

    def test_a_reload_costs_no_request(self):
        def check(load):
            for _ in range(3):
                before = self.workers()
                os.kill(self.arbiter.pid, signal.SIGHUP)
                self.until_replaced(before)
                load.more(50)
            self.assertEqual(load.failures, [], self.front.output())

        self.run_behind(check)

    def test_max_requests_costs_no_request(self):
        def check(load):
            before = self.workers()
            load.more(300)
            self.until_replaced(before)
            self.assertEqual(load.failures, [], self.front.output())

        self.run_behind(check, "--max-requests", "20", "--max-requests-jitter", "10")

    def test_a_worker_that_is_killed_costs_only_the_requests_that_it_had(self):
        def check(load):
            with self.connect() as connection:
                victim = int(ask(connection, "/pid").body)
            os.kill(victim, signal.SIGKILL)
            load.more(200)
            lost = len(load.failures)
            self.assertLessEqual(lost, CLIENTS, load.failures)
            load.more(100)
            self.assertEqual(len(load.failures), lost, f"{load.failures} {self.front.output()}")

        self.run_behind(check)

    def test_threads_of_one_worker_take_a_channel_each(self):
        def check(load):
            load.more(50)
            self.assertEqual(len(self.workers()), 1)
            before = self.workers()
            os.kill(self.arbiter.pid, signal.SIGHUP)
            self.until_replaced(before)
            load.more(50)
            self.assertEqual(load.failures, [], self.front.output())

        self.run_behind(check, "-w", "1", "--threads", "2")


if __name__ == "__main__":
    unittest.main()
