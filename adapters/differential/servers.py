"""The two ways in which the application runs: by itself, and behind Maitred. Every process is ended and reaped."""

import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

from client import Connection, Failure

_START_S = 60
_STOP_S = 30
_LISTENS = re.compile(r"http://(127\.0\.0\.1):(\d+)")
_ROOT = Path(__file__).resolve().parent.parent.parent

_CONFIGURATION = """
[server]
share_user = true

[[listen]]
address = "127.0.0.1:0"

[limits]
body_bytes_max = "64MiB"

[[site]]

[[site.route]]
path = "/*"
pool = "app"

[pool.app]
transport = "{transport}"
queue = {{ max = 1024, timeout = "20s" }}
{pool}
"""


class StartFailed(Exception):
    """A server did not start; the text says why."""


def binary(given=None):
    """The Maitred to test: what was given, `MAITRED`, or what cargo built last without --release. Raises StartFailed."""
    target = os.environ.get("CARGO_TARGET_DIR") or _ROOT / "target"
    path = Path(given or os.environ.get("MAITRED") or Path(target, "debug", "maitred")).resolve()
    if not path.exists():
        raise StartFailed(f"there is no {path}: cargo build -p maitred")
    return path


class Process:
    """A child with its output in a file. `command`: its arguments; `environment`: what is added to this one."""

    def __init__(self, command, directory, environment, log):
        self.log = Path(log)
        with open(log, "wb") as output:
            try:
                self._child = subprocess.Popen(
                    command,
                    cwd=directory,
                    env={**os.environ, **environment},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            except OSError as error:
                raise StartFailed(f"{command[0]}: {error}") from error

    def until(self, what, look):
        """Asks `look` until it answers, which is returned. Raises StartFailed when the process has exited, or after a minute."""
        deadline = time.monotonic() + _START_S
        while (found := look()) is None:
            status = self._child.poll()
            if status is not None:
                raise StartFailed(f"exited with status {status} instead of {what}:\n{self.output()}")
            if time.monotonic() > deadline:
                raise StartFailed(f"no {what} in {_START_S} s:\n{self.output()}")
            time.sleep(0.02)
        return found

    @property
    def pid(self):
        """Its number."""
        return self._child.pid

    def output(self):
        """What it has written."""
        return self.log.read_text("utf-8", "replace")

    def stop(self):
        """Ends it, in an orderly way if it can, and returns its status."""
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
        try:
            return self._child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            return self._child.wait()


class Server:
    """What the cases talk to: `name`, `address`, and the processes behind it."""

    def __init__(self, name):
        self.name = name
        self.address = None
        self._processes = []
        self._reserved = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self._processes):
            process.stop()
        if self._reserved is not None:
            self._reserved.close()

    def reserve_port(self):
        """A port for a process that cannot say which one it got. The socket that holds it does not listen, so that the process
        may; no other process gets the port meanwhile, and a look for a listener cannot connect to itself."""
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        return self._reserved.getsockname()[1]

    def start(self, command, directory, environment, log):
        """Starts a process that ends with this server."""
        process = Process(command, directory, environment, log)
        self._processes.append(process)
        return process

    def output(self):
        """What its processes have written."""
        return "\n".join(process.output() for process in self._processes)


def _accepts(address):
    try:
        with socket.create_connection(address, 1):
            return True
    except OSError:
        return None


def listening(process):
    """Where Maitred says that it listens; None if it has not said so yet."""
    found = _LISTENS.search(process.output())
    return (found[1], int(found[2])) if found else None


def _answers(address):
    """Whether the application does; its processes are started after Maitred listens."""
    try:
        with Connection(address) as connection:
            connection.send(b"GET /bytes?n=1 HTTP/1.1\r\nHost: example.test\r\n\r\n")
            return True if connection.response().status == 200 else None
    except (Failure, OSError):
        return None


class Plan:
    """How an adapter's file says that its application is started."""

    def __init__(self, file, table, python, maitred):
        self._table = table
        self._maitred = maitred
        self._names = {"python": python, "root": str(_ROOT)}
        self._directory = (file.parent / table.get("directory", ".")).resolve()
        self._names["directory"] = str(self._directory)

    def _filled(self, text, more):
        """`{name}` replaced; any other brace stays as it is."""
        for name, value in {**self._names, **more}.items():
            text = text.replace("{" + name + "}", str(value))
        return text

    def _environment(self, more):
        table = self._table.get("environment", {})
        return {name: self._filled(value, more) for name, value in table.items()}

    def _prepare(self, server, table, names):
        """What has to run, and to be there, before the server itself."""
        for number, entry in enumerate(table.get("start", ())):
            words = [self._filled(word, names) for word in entry["command"]]
            log = Path(names["dir"], f"start-{number}.log")
            process = server.start(words, self._directory, self._environment(names), log)
            until = entry.get("until")
            if until is not None:
                path = Path(self._filled(until, names))
                process.until(f"making {path}", lambda: path.exists() or None)

    def alone(self, directory):
        """The application listening by itself. Raises StartFailed."""
        server = Server("alone")
        port = server.reserve_port()
        names = {"port": port, "dir": directory}
        table = self._table["alone"]
        try:
            self._prepare(server, table, names)
            words = [self._filled(word, names) for word in table["command"]]
            process = server.start(words, self._directory, self._environment(names), Path(directory, "alone.log"))
            server.address = ("127.0.0.1", port)
            process.until(f"listening on port {port}", lambda: _accepts(server.address))
        except BaseException:
            server.__exit__()
            raise
        return server

    def behind(self, directory, transport):
        """The application behind Maitred. Raises StartFailed."""
        names = {"dir": directory}
        table = self._table["behind"]
        server = Server(f"behind, {transport}")
        try:
            self._prepare(server, table, names)
            pool = self._filled(table["pool"], names)
            configuration = Path(directory, "maitred.toml")
            text = _CONFIGURATION.format(transport=transport, pool=pool) + self._filled(table.get("more", ""), names)
            configuration.write_text(text)
            words = [str(self._maitred), "run", "-c", str(configuration)]
            process = server.start(words, self._directory, self._environment(names), Path(directory, "maitred.log"))
            server.address = process.until("saying where it listens", lambda: listening(process))
            process.until("answering", lambda: _answers(server.address))
        except BaseException:
            server.__exit__()
            raise
        return server
