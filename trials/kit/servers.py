"""The two ways in which an application runs: by itself, and behind Maitred."""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from .application import PROXY, ROOT
from .processes import Process, run
from .steps import Failure

# What prepares an application (a database, a first account).
_PREPARE_S = 300
_LISTENS = re.compile(r"\b(https?)://127\.0\.0\.1:(\d+)")
# After this long without an answer, the question whether an application is there is repeated.
_ASK_S = 5

# The order of Python's sets shows in some responses, and is another one in each process.
_SAME = {"PYTHONHASHSEED": "0"}

_CONFIGURATION = """
[server]
share_user = true
admin = "unix:{sockets}/admin"

[[listen]]
address = "127.0.0.1:0"

[[listen]]
address = "127.0.0.1:{secure_port}"
tls = {{}}

[limits]
body_bytes_max = "512MiB"
{limits}

[[site]]
certificates = [{{ certificate = "{certificate}", key = "{key}" }}]
{site}

[[site.route]]
path = "{path}"
pool = "app"

[pool.app]
{pool}

{more}
"""


def maitred(given=None):
    """The Maitred to test: what was given, `MAITRED`, or what cargo built last without --release. Raises Failure."""
    target = os.environ.get("CARGO_TARGET_DIR") or ROOT / "target"
    path = Path(given or os.environ.get("MAITRED") or Path(target, "debug", "maitred")).resolve()
    if not path.exists():
        raise Failure(f"there is no {path}: cargo build -p maitred")
    return path


def certificate(directory):
    """A certificate of its own for 127.0.0.1 and localhost, and its key, made once: two paths."""
    file, key = directory / "certificate.pem", directory / "key.pem"
    if not file.exists():
        words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650"]
        words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
        run("openssl", [*words, "-keyout", str(key), "-out", str(file)], "/", dict(os.environ), directory / "openssl.log", 60)
    return file, key


class Server:
    """What runs at the same time, and ends together. A context manager."""

    def __init__(self, application, installed, directory):
        self._application, self._installed = application, installed
        self.directory = Path(directory)
        shutil.rmtree(self.directory, ignore_errors=True)
        (self.directory / "data").mkdir(parents=True)
        # Paths of sockets are at most 108 bytes long.
        self.sockets = Path(tempfile.mkdtemp(prefix="trial-"))
        self.processes = []
        self.bases = {}
        self._ports = []
        self.port = self._reserve()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.stop()
        for reserved in self._ports:
            reserved.close()
        shutil.rmtree(self.sockets, ignore_errors=True)

    def _reserve(self):
        """A port for a process that cannot say which one it got. The socket that holds it does not listen, so that the process
        may; no other process is given the port meanwhile."""
        reserved = socket.socket()
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        self._ports.append(reserved)
        return reserved.getsockname()[1]

    def _names(self):
        return {
            "python": self._installed.python,
            "bin": self._installed.python.parent,
            "build": self._installed.build,
            "app": self._application.folder,
            "root": ROOT,
            "dir": self.directory / "data",
            "sockets": self.sockets,
            "port": self.port,
        }

    def filled(self, text, more=None):
        """`{name}` replaced; any other brace stays as it is."""
        for name, value in {**self._names(), **(more or {})}.items():
            text = text.replace("{" + name + "}", str(value))
        return text

    def environment(self):
        """Of every program: a home of its own, and what the application's file says."""
        more = {name: self.filled(value) for name, value in self._application.environment.items()}
        path = f"{self._installed.python.parent}:{os.environ.get('PATH', '')}"
        # What this program was started with must not decide how an application works.
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        return {**kept, "PATH": path, "HOME": str(self.directory / "data"), **_SAME, **more}

    def _run(self, commands):
        for number, words in enumerate(commands):
            log = self.directory / f"prepare-{number}.log"
            filled = [self.filled(word) for word in words]
            run(f"prepare {number}", filled, self.directory / "data", self.environment(), log, _PREPARE_S)

    def start(self, name, command):
        """A program that ends with this server."""
        log = self.directory / f"{name}.log"
        words = [self.filled(word) for word in command]
        process = Process(name, words, self.directory / "data", self.environment(), log)
        self.processes.append(process)
        return process

    def _ready(self, process, port):
        path = self.filled(self._application.alone.get("ready", "/"))
        process.until(f"answering {path}", lambda: _answers(port, path))

    def alone(self):
        """The application by itself."""
        table = self._application.alone
        self._run(table.get("prepare", ()))
        process = self.start("application", table["command"])
        self._ready(process, self.port)
        self.bases = {"http/1.1": f"http://127.0.0.1:{self.port}"}

    def behind(self, binary, transport, files):
        """Maitred, and behind it the application. `files`: of the certificate and its key."""
        table = self._application.behind
        self._run(table.get("prepare", self._application.alone.get("prepare", ())))
        if table.get("proxy"):
            process = self.start("application", self._application.alone["command"])
            self._ready(process, self.port)
            pool = 'connect = "http://127.0.0.1:{port}"\n' + table.get("pool", "")
        else:
            for name, entry in table.get("start", {}).items():
                process = self.start(name, entry["command"])
                path = Path(self.filled(entry["until"]))
                process.until(f"making {path}", path.exists)
            # A server of another protocol has no transport.
            pool = table["pool"] if table.get("upstream") else f'transport = "{transport}"\n' + table["pool"]
        configuration = self.directory / "maitred.toml"
        configuration.write_text(self._configuration(table, pool, files))
        process = self.start("maitred", [str(binary), "run", "-c", str(configuration)])
        found = process.until("saying where it listens", lambda: _listening(process))
        self.bases = {
            "http/1.1": f"http://127.0.0.1:{found['http']}",
            "https/1.1": f"https://127.0.0.1:{found['https']}",
            "https/2": f"https://127.0.0.1:{found['https']}",
        }
        self._ready(process, found["http"])

    def _configuration(self, table, pool, files):
        parts = {name: self.filled(table.get(name, "")) for name in ("site", "more", "limits")}
        certificate_file, key = files
        if "command" in pool:
            # As `environment` is for the application alone.
            pool += '\nenv_inherit = ["*"]'
        return _CONFIGURATION.format(
            sockets=self.sockets,
            secure_port=self._reserve(),
            certificate=certificate_file,
            key=key,
            path=table.get("path", "/*"),
            pool=self.filled(pool),
            **parts,
        )

    def control(self, binary, *words):
        """Arguments that ask the running server for something."""
        return [str(binary), *words, "--admin", f"unix:{self.sockets}/admin"]

    def describe(self, binary):
        """What the server says of itself, beside its log: for the analysis of a failure."""
        if self.bases and "https/2" in self.bases:
            words = self.control(binary, "status", "--json")
            said = subprocess.run(words, capture_output=True, timeout=_ASK_S, check=False)
            (self.directory / "status.json").write_bytes(said.stdout + said.stderr)


def way(transport, protocol):
    """A configuration's name, for people and for allowances."""
    return f"{protocol}" if transport == PROXY else f"{transport}, {protocol}"


def _listening(process):
    found = dict(_LISTENS.findall(process.log.read_text("utf-8", "replace")))
    return found if len(found) == 2 else None


def _answers(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ASK_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def generation(text):
    """Of the worker process, in what `maitred status --json` says."""
    return json.loads(text)["generation"]
