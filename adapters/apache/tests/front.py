"""The real Maitred in front of Apache."""

import sys
import tempfile
from pathlib import Path

import server

sys.path.insert(0, str(server.ADAPTER.parent / "differential"))

import client  # noqa: E402  sees every byte of a response
import servers  # noqa: E402  starts processes, and ends them
from load import Load, ask  # noqa: E402

CONFIGURATION = """
[server]
share_user = true
trusted_proxies = ["127.0.0.1"]

[log]
access = "off"

[[listen]]
address = "127.0.0.1:0"

[limits]
body_bytes_max = "64MiB"

[[site]]

[[site.route]]
path = "/*"
pool = "apache"

[pool.apache]
connect = "unix:{path}"
queue = {{ max = 1000, timeout = "60s" }}
{pool}
"""


def missing():
    """Why there is no Maitred to test with, or None."""
    try:
        servers.binary()
    except servers.StartFailed as why:
        return str(why)
    return server.missing()


class Maitred:
    """Runs for as long as `with` lasts; `address` is where it listens."""

    def __init__(self, apache, pool="workers = 4"):
        self._text = CONFIGURATION.format(path=apache.path, pool=pool)

    def __enter__(self):
        self._directory = tempfile.TemporaryDirectory(prefix="maitred-front-")
        root = Path(self._directory.name)
        (root / "maitred.toml").write_text(self._text)
        words = [str(servers.binary()), "run", "-c", str(root / "maitred.toml")]
        self._process = servers.Process(words, root, {}, root / "log")
        try:
            self.address = self._process.until("saying where it listens", lambda: servers.listening(self._process))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._process.stop()
        self._directory.cleanup()

    def log(self):
        """What it has written."""
        return self._process.output()

    def connect(self, **options):
        """A client's connection."""
        return client.Connection(self.address, **options)

    def ask(self, target, **options):
        """One request on a connection of its own."""
        with self.connect() as connection:
            return ask(connection, target, **options)


# Bodies in the frame, and bodies as files, neither of which may be asked twice; and pages that take a while.
ASKED = [
    ("/bytes/100", None, b"x" * 100),
    ("/bytes/100", b"x" * 100, b"x" * 100),
    ("/slow/5", None, b"slow"),
    ("/bytes/100", b"x" * 200_000, b"x" * 100),
]


def load(front, clients=6):
    """Clients that keep the reference application busy."""
    return Load(front.connect, ASKED, clients)
