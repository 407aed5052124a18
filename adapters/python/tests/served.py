"""A real server process, and Maitred's side of its channels, for the tests of gunicorn and uvicorn."""

import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.frames import WELCOME_FRAME, Done, request_frame

PACKAGE = Path(__file__).resolve().parent.parent
# Bounds how long a broken server can hold a test up.
DEADLINE_S = 60
_HEADER = struct.Struct("<IBBHII")
HELLO, DONE, LIMITS, STREAMS = 65, 66, 70, 71


def until(condition, log):
    """Looks again and again until `condition()` is true, and returns that. Raises AssertionError with `log()` in the end."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"in vain: {log()}"
        time.sleep(0.01)
    return found


class Process:
    """A child in a directory of its own that holds `files`; ended and reaped at the end."""

    def __init__(self, *arguments, files, passed=None, environment=()):
        self._directory = tempfile.TemporaryDirectory()
        self.path = Path(self._directory.name)
        for name, text in files.items():
            (self.path / name).write_text(text)
        variables = {**os.environ, "PYTHONPATH": str(PACKAGE), "PYTHONWARNINGS": "ignore", **dict(environment)}
        variables.pop("MAITRED_CHANNEL", None)
        if passed is not None:
            variables["MAITRED_CHANNEL"] = str(passed.fileno())
        words = [word.replace("{dir}", str(self.path)) for word in arguments]
        with open(self.path / "log", "wb") as log:
            self.child = subprocess.Popen(
                [sys.executable, *words],
                cwd=self.path,
                env=variables,
                pass_fds=[] if passed is None else [passed.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        try:
            self.child.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self._directory.cleanup()

    def log(self):
        """What it has written."""
        return (self.path / "log").read_text()

    def until(self, condition):
        """`until` with its log."""
        return until(condition, self.log)


class Channel:
    """Maitred's end of one channel, after HELLO and WELCOME."""

    def __init__(self, sock):
        self.socket = sock
        sock.settimeout(DEADLINE_S)
        self._data = b""
        kind, _, _, payload = self.frame()
        assert kind == HELLO, kind
        self.capacity = int.from_bytes(payload[4:8], "little")
        self.name = payload[8:].decode()
        sock.sendall(WELCOME_FRAME)
        self._request = 0

    def frame(self):
        """The next frame but LIMITS and STREAMS: kind, flags, request, payload."""
        kind = LIMITS
        while kind in (LIMITS, STREAMS):
            size, kind, flags, _, _, request = _HEADER.unpack(self._exactly(16))
            payload = self._exactly(size)
        return kind, flags, request, payload

    def _exactly(self, count):
        while len(self._data) < count:
            piece = self.socket.recv(65536)
            if not piece:
                raise EOFError("the channel has ended")
            self._data += piece
        found, self._data = self._data[:count], self._data[count:]
        return found

    def send(self, target="/", **options):
        """A request on a connection of its own; the client's end of it."""
        self._request += 1
        near, far = socket.socketpair()
        far.setblocking(False)
        near.settimeout(DEADLINE_S)
        frame = request_frame(self._request, self._request, target, descriptors=1, **options)
        socket.send_fds(self.socket, [frame], [far.fileno()])
        far.close()
        return near

    def done(self):
        """The next DONE."""
        kind, flags, request, payload = self.frame()
        assert kind == DONE, kind
        status, _, _, body_bytes = struct.unpack("<HHIQ", payload)
        return Done(flags, request, status, body_bytes)

    def ask(self, target="/", **options):
        """One request: its DONE, and what was written to the client. For responses that fit into a socket buffer."""
        with self.send(target, **options) as near:
            done = self.done()
            return done, near.recv(65536)

    def at_end(self):
        """Whether the worker closes the channel without another frame."""
        try:
            self.frame()
        except (ConnectionResetError, EOFError):
            return not self._data
        return False

    def close(self):
        self.socket.close()


def connected(process, path):
    """A channel to a server that listens at `path`, once it does. None if there is no worker that takes it."""

    def connect():
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            # It is bound before it listens.
            sock.close()
            return None
        return sock

    return Channel(process.until(connect))
