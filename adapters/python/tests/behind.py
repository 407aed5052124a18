"""Applications behind the real Maitred, for the tests with packages that people use."""

import json
import os
import socket
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

from tests.served import DEADLINE_S, until

ROOT = Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / "adapters" / "differential"))

if sys.version_info >= (3, 11):
    import servers

    try:
        MAITRED = servers.binary()
    except servers.StartFailed:
        MAITRED = None
else:
    MAITRED = None

_CONFIGURATION = """
[server]
share_user = true
[log]
access = "off"
[[listen]]
address = "127.0.0.1:0"
[[site]]
[[site.route]]
path = "/*"
pool = "app"
[pool.app]
env_inherit = ["*"]
transport = "{transport}"
{queue}
{pool}
"""
# On a busy machine the first process may take longer to start than a request waits otherwise.
_QUEUE = 'queue = { timeout = "60s" }'
COMMANDS = {
    "wsgi": ["-m", "maitred", "app:app"],
    "asgi": ["-m", "maitred", "app:app"],
    "rsgi": ["-m", "maitred", "app:app"],
    "gunicorn": ["-m", "gunicorn", "-k", "maitred.gunicorn.HandoffWorker", "app:app"],
    "uvicorn": ["-m", "maitred.uvicorn", "app:app"],
}

needs_maitred = unittest.skipUnless(
    MAITRED, "there is no debug build of maitred (cargo build -p maitred), or Python is older than 3.11"
)


class Behind:
    """`source` as app.py, and Maitred in front of it. `kind` is one of COMMANDS; `pool` holds more lines of the pool, `options` more
    words of the command."""

    def __init__(self, source, kind, transport="auto", pool="workers = 1", options=()):
        self._holder = tempfile.TemporaryDirectory()
        self.path = Path(self._holder.name)
        (self.path / "app.py").write_text(source)
        self._environment = {"PYTHONPATH": str(ROOT / "adapters" / "python")}
        command = pool
        if kind is not None:
            *words, application = COMMANDS[kind]
            command = f"command = {json.dumps([sys.executable, *words, *options, application])}\n{pool}"
        queue = "" if "queue" in pool else _QUEUE
        configuration = _CONFIGURATION.format(transport=transport, queue=queue, pool=command)
        (self.path / "maitred.toml").write_text(configuration)

    def __enter__(self):
        words = [str(MAITRED), "run", "-c", "maitred.toml"]
        self._front = servers.Process(words, self.path, self._environment, self.path / "front.log")
        try:
            self.address = self._front.until("listening", lambda: servers.listening(self._front))
        except BaseException:
            self.__exit__()
            raise
        self.url = "http://{}:{}".format(*self.address)
        return self

    def __exit__(self, *_):
        self._front.stop()
        self._holder.cleanup()

    def log(self):
        """What Maitred and the application have written."""
        return self._front.output()

    def get(self, target, **fields):
        """Status, fields and body of a GET."""
        asked = urllib.request.Request(self.url + target, headers={name.replace("_", "-"): v for name, v in fields.items()})
        try:
            with urllib.request.urlopen(asked, timeout=DEADLINE_S) as response:
                return response.status, response.headers, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def open(self, target, *fields, method="GET"):
        """A connection on which a request was sent."""
        sock = socket.create_connection(self.address, DEADLINE_S)
        lines = [f"{method} {target} HTTP/1.1", "Host: example.test", *fields, "", ""]
        sock.sendall("\r\n".join(lines).encode())
        return sock

    def until(self, condition):
        """Looks again and again until `condition()` is true, and returns that. Raises AssertionError with the log in the end."""
        return until(condition, self.log)


def read_until(sock, mark):
    """What is received up to `mark`, which has to come."""
    data = b""
    while mark not in data:
        piece = sock.recv(65536)
        assert piece, f"the connection ended before {mark!r}; there was {data!r}"
        data += piece
    return data
